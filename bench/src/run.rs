//! Runs the tools of a case in turn.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::bucket::{BenchStore, SOURCE};
use crate::cases::{BenchCase, DataDirection, Far, Passes, SlowSide, TreePlace};
use crate::dataset::{DatasetTree, make_older};
use crate::leftovers::{BenchScratch, SLOW};
use crate::link::{EmulatedLink, TcpSpec};
use crate::measure::{Cgroups, HostProcesses};
use crate::peers::tool_named;
use crate::process::{last_lines, run_aside};
use crate::record::{BenchPass, CaseRecord, RunOutcome, RunRecord, ToolRecord};
use crate::share::Share;
use crate::sshd::BenchSshd;
use crate::stop::Stop;
use crate::timed::{RunStage, timed};
use crate::tool::{BenchCopy, CopyCommands, Promise, Tool, ToolKeeps};
use crate::units::show_seconds;

/// The settings that all cases share.
pub(crate) struct BenchSettings {
    /// Rounds of each case.
    pub(crate) rounds: usize,
    /// Small data and short delays.
    pub(crate) quick: bool,
    /// The case whose data all cases copy; none: their own.
    pub(crate) data: Option<&'static BenchCase>,
    /// Where trees in memory are.
    pub(crate) dir: PathBuf,
    /// Where trees on disk are.
    pub(crate) disk_dir: PathBuf,
    /// The program haul; none: only the peers run.
    pub(crate) haul: Option<String>,
    /// Another build of haul to measure beside it.
    pub(crate) before: Option<String>,
    /// More options for haul.
    pub(crate) haul_args: String,
    /// Names of tools to run; empty: all of the case.
    pub(crate) tools: Vec<String>,
    /// Instead of the time limits of the cases.
    pub(crate) timeout: Option<Duration>,
    /// TCP in both namespaces.
    pub(crate) tcp: TcpSpec,
    /// The wish to stop.
    pub(crate) stop: Stop,
}

/// Runs one case.
pub(crate) fn run_case(
    case: &BenchCase,
    settings: &BenchSettings,
    cgroups: Option<&Cgroups>,
) -> Result<CaseRecord> {
    let (tools, skipped) = choose(case, settings);
    if tools.is_empty() {
        bail!("none of its tools is chosen or there: {}", case.tools.join(", "));
    }
    let base = base_dir(case, settings);
    let spec = case.link(settings.quick);
    let data = settings.data.unwrap_or(case).data(settings.quick);
    let tree = data.prepare(base, &settings.stop)?;
    // Dropped in reverse: processes, then the link with its namespaces, then the directory.
    let scratch = BenchScratch::new(base)?;
    let link = spec.as_ref().map(|spec| EmulatedLink::new(spec, &settings.tcp)).transpose()?;
    let near = HostProcesses::new(cgroups, "near");
    let far = HostProcesses::new(cgroups, "far");
    let (mut sshd, mut bucket, mut share) = (None, None, None);
    if let Some(link) = &link {
        let (dir, stop) = (scratch.path().join("far"), &settings.stop);
        match case.far {
            Far::Machine => sshd = Some(BenchSshd::start(&dir, link, &far, stop)?),
            Far::Share => share = Some(Share::start(&dir, base, link, &far, stop)?),
            Far::Bucket | Far::Stream => bucket = Some(BenchStore::start(&dir, link, &far, stop)?),
        }
    }
    let pid = sshd.as_ref().map(BenchSshd::pid).or(bucket.as_ref().map(BenchStore::pid));
    let pid = pid.or(share.as_ref().map(Share::pid));
    let file = data.only_file();
    let runner = CaseRunner {
        case,
        settings,
        tree: &tree,
        scratch: scratch.path(),
        stage: RunStage {
            link: link.as_ref(),
            near: &near,
            far: pid.map(|pid| (&far, pid)),
            stop: &settings.stop,
            log: scratch.path().join("tool.log"),
            timeout: settings.timeout.unwrap_or(case.timeout),
        },
        sshd: sshd.as_ref(),
        bucket: bucket.as_ref(),
        share: share.as_ref(),
        file: file.as_deref(),
    };
    if let Some(bucket) = bucket.as_ref().filter(|_| case.route == DataDirection::Pull) {
        let (haul, tree) = (settings.haul.as_deref(), utf8(&tree.path)?);
        match (case.far, haul) {
            (Far::Stream, Some(haul)) => bucket.put_xbstream(haul, tree)?,
            _ => fill_bucket(bucket, haul, tree, file.as_deref())?,
        }
    }
    if case.store == TreePlace::Disk {
        warm(&tree, scratch.path(), &settings.stop)?;
    }
    let tools = runner.rounds(&tools)?;
    Ok(CaseRecord {
        case: case.name.to_owned(),
        about: case.about.to_owned(),
        way: case.way(settings.quick),
        queue_bytes: spec.as_ref().map(crate::link::LinkSpec::queue_bytes),
        link: spec,
        directory: base.display().to_string(),
        data: data.name.to_owned(),
        extent: tree.extent,
        delay: case.slow.map(|slow| slow.delay().as_secs_f64()),
        by_promise: case.store == TreePlace::Disk,
        tools,
        skipped,
    })
}

/// The directory for the data of a case.
fn base_dir<'a>(case: &BenchCase, settings: &'a BenchSettings) -> &'a Path {
    match case.store {
        TreePlace::Memory => &settings.dir,
        TreePlace::Disk => &settings.disk_dir,
    }
}

/// Reads the tree into the page cache.
fn warm(tree: &DatasetTree, scratch: &Path, stop: &Stop) -> Result<()> {
    let read = format!("tar -C {} -cf - . | cat > /dev/null", tree.path.display());
    run_aside(&read, &scratch.join("warm.log"), stop).map(drop)
}

/// Stores the data of a case in a bucket. haul uploads a single file, so that its digest is stored too.
fn fill_bucket(bucket: &BenchStore, haul: Option<&str>, tree: &str, file: Option<&str>) -> Result<()> {
    match (haul, file) {
        (Some(haul), Some(file)) => bucket.put(haul, &format!("{tree}/{file}"), &format!("{SOURCE}/{file}")),
        _ => bucket.fill(SOURCE, tree),
    }
}

/// The tools to run, and those left out.
fn choose(case: &BenchCase, settings: &BenchSettings) -> (Vec<&'static Tool>, Vec<(String, String)>) {
    let mut chosen = Vec::new();
    let mut skipped = Vec::new();
    for tool in case.tools.iter().filter_map(|name| tool_named(name)) {
        if !settings.tools.is_empty() && !settings.tools.iter().any(|name| name == tool.name) {
            continue;
        }
        if tool.is_haul() && settings.haul.is_none() {
            skipped.push((tool.name.to_owned(), "haul was not found".to_owned()));
        } else if let Some(program) = tool.missing() {
            skipped.push((tool.name.to_owned(), format!("{program} is not on the path")));
        } else {
            chosen.push(tool);
        }
    }
    (chosen, skipped)
}

struct CaseRunner<'a> {
    case: &'a BenchCase,
    settings: &'a BenchSettings,
    tree: &'a DatasetTree,
    scratch: &'a Path,
    stage: RunStage<'a>,
    sshd: Option<&'a BenchSshd>,
    bucket: Option<&'a BenchStore<'a>>,
    share: Option<&'a Share>,
    /// The only file of the tree, where it has one.
    file: Option<&'a str>,
}

impl CaseRunner<'_> {
    /// All rounds, the tools in turn in each. Every other round runs them in reverse order, as a run can cost the one
    /// that follows it.
    fn rounds(&self, tools: &[&'static Tool]) -> Result<Vec<ToolRecord>> {
        let mut planned = Vec::new();
        for (index, (tool, label, haul)) in self.builds(tools).into_iter().enumerate() {
            let name = format!("copy-{index}");
            let target = self.behind().join(&name);
            fs::create_dir_all(self.behind())?;
            let plan = self.plan(tool, haul, &self.seen(&name))?;
            let record = ToolRecord {
                tool: label,
                version: tool.version(haul),
                peer: Some(haul) != self.settings.haul.as_deref() || !tool.is_haul(),
                durable: tool.promise == Promise::Durable,
                command: plan.near.clone(),
                listener: plan.listener.clone(),
                runs: Vec::new(),
            };
            planned.push((tool, target, plan, record));
        }
        for round in 1..=self.settings.rounds {
            let mut order: Vec<_> = planned.iter_mut().collect();
            if round % 2 == 0 {
                order.reverse();
            }
            for (tool, target, plan, record) in order {
                // A tool that was too slow once does not run again.
                let given_up = record.runs.iter().any(|run| run.outcome == RunOutcome::Timeout);
                if !given_up {
                    self.round(round, (tool, &record.tool), target, plan, &mut record.runs)?;
                }
            }
        }
        Ok(planned.into_iter().map(|(.., record)| record).collect())
    }

    /// Each tool with its name in the table and the program haul that it runs: haul once for each build of it.
    fn builds(&self, tools: &[&'static Tool]) -> Vec<(&'static Tool, String, &str)> {
        let haul = self.settings.haul.as_deref().unwrap_or("haul");
        let mut builds = Vec::new();
        for tool in tools {
            builds.push((*tool, tool.name.to_owned(), haul));
            if let Some(before) = self.settings.before.as_deref().filter(|_| tool.is_haul()) {
                builds.push((*tool, format!("{}, before", tool.name), before));
            }
        }
        builds
    }

    /// The directory that holds the copies.
    fn behind(&self) -> PathBuf {
        self.scratch.join("copies")
    }

    /// Where tools see the copy of that name.
    fn seen(&self, name: &str) -> PathBuf {
        match self.case.slow {
            Some(SlowSide::Target(_)) => self.scratch.join(SLOW).join(name),
            _ => self.behind().join(name),
        }
    }

    /// Runs a plan, with the slow file system mounted anew where the case has one: nothing is in caches.
    fn run(&self, plan: &CopyCommands, pass: BenchPass) -> Result<RunRecord> {
        let Some(slow) = self.case.slow else { return timed(&self.stage, plan) };
        let behind = match slow {
            SlowSide::Source(_) => self.tree.path.clone(),
            SlowSide::Target(_) => self.behind(),
        };
        let delay = if pass == BenchPass::Prepare { Duration::ZERO } else { slow.delay() };
        let options = haul_slowfs::MountOptions::nfs(delay);
        let at = self.scratch.join(SLOW);
        fs::create_dir_all(&at)?;
        let mount = haul_slowfs::SlowMount::new(&behind, &at, options)
            .context("cannot mount the slow file system")?;
        let mut run = timed(&self.stage, plan)?;
        let counts = mount.counts();
        run.requests = Some(counts.iter().map(|(op, count)| (op.name().to_owned(), count)).collect());
        Ok(run)
    }

    fn plan(&self, tool: &Tool, haul: &str, target: &Path) -> Result<CopyCommands> {
        let slow = self.scratch.join(SLOW);
        let source = match self.case.slow {
            Some(SlowSide::Source(_)) => slow.as_path(),
            _ => &self.tree.path,
        };
        let (mut source, mut target, bucket) = (utf8(source)?, utf8(target)?, bucket_of(target));
        match (self.bucket, self.case.route) {
            (Some(_), DataDirection::Push) => target = &bucket,
            (Some(_), DataDirection::Pull) => source = SOURCE,
            _ => {}
        }
        let job = BenchCopy {
            route: self.case.route,
            source,
            target,
            ssh: self.sshd.map(|sshd| &sshd.access),
            bucket: self.bucket.map(|bucket| &bucket.access),
            piped: self.case.piped,
            share: self.share.map(|share| &share.access),
            file: self.file,
            haul,
            haul_args: &self.settings.haul_args,
        };
        (tool.plan)(&job).with_context(|| format!("{} cannot do the case {}", tool.name, self.case.name))
    }

    /// The passes of one tool in one round.
    fn round(
        &self,
        round: usize,
        (tool, label): (&Tool, &str),
        target: &Path,
        plan: &CopyCommands,
        runs: &mut Vec<RunRecord>,
    ) -> Result<()> {
        let passes: &[BenchPass] = match self.case.passes {
            Passes::First | Passes::Changed => &[BenchPass::First],
            Passes::Both => &[BenchPass::First, BenchPass::Again],
            Passes::Again if target.exists() => &[BenchPass::Again],
            Passes::Again => &[BenchPass::Prepare, BenchPass::Again],
        };
        for pass in passes {
            if *pass != BenchPass::Again {
                self.clear(target)?;
            }
            if self.case.passes == Passes::Changed {
                let copy = format!("cp -a {} {}", utf8(&self.tree.path)?, utf8(target)?);
                run_aside(&copy, &self.scratch.join("copy.log"), &self.settings.stop)?;
                make_older(target)?;
            }
            if self.case.store == TreePlace::Disk {
                // Pages of earlier runs are not to be written during this one.
                rustix::fs::syncfs(File::open(self.scratch)?)?;
            }
            if tool.name == "haul sync" && *pass == BenchPass::Again {
                rename_some(target)?;
            }
            if let Some(bucket) = self.filled() {
                bucket.make(&bucket_of(target))?;
            }
            let mut run = self.run(plan, *pass)?;
            // A run that a signal has ended is no result of the tool.
            self.settings.stop.check()?;
            run.round = round;
            run.pass = *pass;
            if run.outcome == RunOutcome::Ok {
                run.outcome = self.compare(tool, target)?;
            }
            self.tell(label, &run);
            let ended_well = run.outcome == RunOutcome::Ok;
            runs.push(run);
            if !ended_well {
                self.clear(target)?;
                return Ok(());
            }
        }
        if self.case.passes != Passes::Again {
            self.clear(target)?;
        }
        Ok(())
    }

    /// Removes a copy. On a disk it is kept aside until the end of the case: ext4 looks at every inode that was freed
    /// in the last minutes before it makes a new one, which costs the next tool more than its copy.
    fn clear(&self, target: &Path) -> Result<()> {
        if let Some(bucket) = self.filled() {
            bucket.make(&bucket_of(target))?;
            bucket.remove(&bucket_of(target))?;
        }
        if self.case.store == TreePlace::Memory || !target.exists() {
            return remove(target);
        }
        let aside = self.scratch.join("aside");
        fs::create_dir_all(&aside)?;
        let number = fs::read_dir(&aside)?.count();
        fs::rename(target, aside.join(number.to_string())).context("cannot put a copy aside")
    }

    /// The object store, if it is the target.
    fn filled(&self) -> Option<&BenchStore<'_>> {
        self.bucket.filter(|_| self.case.route == DataDirection::Push)
    }

    /// Compares the copy with the original, byte for byte.
    fn compare(&self, tool: &Tool, target: &Path) -> Result<RunOutcome> {
        if let Some(bucket) = self.filled()
            && let Err(error) = bucket.take(&bucket_of(target), utf8(target)?)
        {
            self.settings.stop.check()?;
            return Ok(RunOutcome::Mismatch(format!("{error:#}")));
        }
        let options = match tool.keeps {
            ToolKeeps::Nothing => return Ok(RunOutcome::Ok),
            ToolKeeps::Everything => "-rlptgoDnic",
            ToolKeeps::Contents => "-rlnic",
        };
        let text = format!("rsync {options} --delete {}/ {}/", utf8(&self.tree.path)?, utf8(target)?);
        let output = run_aside(&text, &self.scratch.join("compare.log"), &self.settings.stop);
        self.settings.stop.check()?;
        Ok(match output {
            Ok(text) if text.trim().is_empty() => RunOutcome::Ok,
            Ok(text) => {
                RunOutcome::Mismatch(format!("{} differences: {}", text.lines().count(), last_lines(&text)))
            }
            Err(error) => RunOutcome::Mismatch(format!("{error:#}")),
        })
    }

    fn tell(&self, label: &str, run: &RunRecord) {
        let how = match &run.outcome {
            RunOutcome::Ok => String::new(),
            RunOutcome::Timeout => " TIMEOUT".to_owned(),
            RunOutcome::Failed(why) => format!(" FAILED: {why}"),
            RunOutcome::Mismatch(why) => format!(" MISMATCH: {why}"),
        };
        let pass = match run.pass {
            BenchPass::First => "",
            BenchPass::Again => " again",
            BenchPass::Prepare => " prepare",
        };
        let (case, seconds) = (self.case.name, show_seconds(run.seconds));
        eprintln!("{case} round {} {label}{pass}: {seconds} s{how}", run.round);
    }
}

/// The bucket of a copy.
fn bucket_of(target: &Path) -> String {
    format!("s3://{}", target.file_name().unwrap_or_default().to_string_lossy())
}

/// Gives every tenth entry of the first directory in a copy another name, so that it is missing and one too many is
/// there.
fn rename_some(copy: &Path) -> Result<()> {
    let Some(directory) = fs::read_dir(copy)?.next().transpose()? else { return Ok(()) };
    let mut names: Vec<_> = fs::read_dir(directory.path())?.collect::<std::io::Result<_>>()?;
    names.sort_by_key(fs::DirEntry::file_name);
    for entry in names.iter().step_by(10) {
        let mut other = entry.file_name();
        other.push(".other");
        fs::rename(entry.path(), directory.path().join(other))?;
    }
    Ok(())
}

/// Removes a tree that may not be there.
fn remove(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// A path that can be put in commands without quotes.
pub(crate) fn utf8(path: &Path) -> Result<&str> {
    match path.to_str() {
        Some(text) if text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+".contains(c)) => Ok(text),
        _ => bail!("the path {} has characters other than letters, digits and /._-+", path.display()),
    }
}

impl BenchSettings {
    /// Whether any of the cases needs a link or a mount.
    pub(crate) fn needs_root(cases: &[&BenchCase]) -> bool {
        cases.iter().any(|case| case.route != DataDirection::Local || case.slow.is_some())
    }
}
