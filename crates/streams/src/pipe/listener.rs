//! Shows the standard error of the programs of a pipe, line by line.

use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use haul_core::sync::Mutex;
use haul_core::{Error, Result, Said};

use super::settings::Pipe;

/// How long the end of a program's standard error is waited for, once the program has ended: a process that it left
/// running may hold it open.
const END: Duration = Duration::from_secs(2);
/// The longest line that is shown in one piece.
const LINE: usize = 4096;

/// Threads that listen to both programs.
pub struct Listeners {
    threads: Vec<JoinHandle<()>>,
    failure: Arc<Mutex<Option<Error>>>,
}

impl Listeners {
    /// Passes each line to `show`, behind the name of its program.
    ///
    /// # Errors
    /// That of starting a thread.
    pub fn start(pipe: &Pipe, names: (&str, &str), show: &Arc<dyn Fn(&str) + Send + Sync>) -> Result<Self> {
        let (source, sink) = (Arc::clone(&pipe.source), Arc::clone(&pipe.sink));
        let failure = Arc::default();
        let first = listen(names.0, show, &failure, move |from| source.said(from))?;
        let second = listen(names.1, show, &failure, move |from| sink.said(from))?;
        Ok(Self { threads: vec![first, second], failure })
    }

    /// Why one of the programs cannot be listened to, such as that it has failed.
    pub(super) fn failure(&self) -> Option<Error> {
        self.failure.lock().clone()
    }

    /// Waits until all that the programs have said is shown.
    pub fn end(self) {
        let until = Instant::now() + END;
        while self.threads.iter().any(|thread| !thread.is_finished()) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn listen(
    name: &str,
    show: &Arc<dyn Fn(&str) + Send + Sync>,
    failure: &Arc<Mutex<Option<Error>>>,
    said: impl Fn(u64) -> Result<Said> + Send + 'static,
) -> Result<JoinHandle<()>> {
    let (name, show, failure) = (name.to_owned(), Arc::clone(show), Arc::clone(failure));
    let listen = move || {
        let (mut from, mut line) = (0, Vec::new());
        let tell = |line: &mut Vec<u8>| {
            show(&format!("{name}: {}", String::from_utf8_lossy(line)));
            line.clear();
        };
        loop {
            let Said { text, ended } = match said(from) {
                Ok(said) => said,
                Err(error) => {
                    failure.lock().get_or_insert(error);
                    break;
                }
            };
            from += text.len() as u64;
            for byte in &text {
                if *byte != b'\n' {
                    line.push(*byte);
                }
                if *byte == b'\n' || line.len() == LINE {
                    tell(&mut line);
                }
            }
            if ended && text.is_empty() {
                break;
            }
        }
        if !line.is_empty() {
            tell(&mut line);
        }
    };
    let thread = Builder::new().name("haul-listen".to_owned()).spawn(listen);
    thread.map_err(|error| haul_threads::refused(&error))
}
