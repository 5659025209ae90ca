//! Lists objects.

use std::ops::ControlFlow;

use haul_core::{Error, ErrorKind, ObjectPlace, Result, Side};
use haul_job::{KeyPattern, exists_key, is_key_pattern};
use haul_object::{Client, Object};

use crate::args::LsArgs;
use crate::commands::stream::open_alone;
use crate::exit_code::Exit;
use crate::render::{
    OutputLines, object_json, object_line, prefix_json, prefix_line, total_json, total_line,
};
use crate::settings::ObjectSelection;

/// Lists objects, below a heading.
///
/// # Errors
/// [`ErrorKind::NotFound`] if no object has the prefix or matches; [`ErrorKind::Usage`] if nothing can match the
/// selection; errors of the store.
pub(super) fn list(place: &ObjectPlace, args: &LsArgs, heading: &[u8]) -> Result<Exit> {
    let client = open_alone(place, Side::Source, &args.store, args.host.family(), &args.given)?;
    let selection = ObjectSelection::new(&args.select)?;
    let is_pattern = is_key_pattern(&place.key) && !exists_key(&client, &place.key)?;
    let (client, lines) = (&client, OutputLines::stdout());
    let mut listing = ObjectListing { client, args, selection, lines, heading, count: 0, len: 0 };
    let cause = if is_pattern { "no object matches the pattern" } else { "no object has this prefix" };
    let found = if is_pattern { listing.matches(&place.key)? } else { listing.below(&place.key)? };
    if !found && !place.key.is_empty() && !listing.lines.is_closed() {
        return Err(Error::new(ErrorKind::NotFound, Side::Source, "list", cause).on(place.to_string()));
    }
    listing.end()
}

struct ObjectListing<'a> {
    client: &'a Client,
    args: &'a LsArgs,
    selection: ObjectSelection<'a>,
    lines: OutputLines,
    /// Printed before the first page.
    heading: &'a [u8],
    count: u64,
    len: u64,
}

impl ObjectListing<'_> {
    /// Lists the objects below a prefix. Returns whether there are any.
    fn below(&mut self, prefix: &str) -> Result<bool> {
        let recursive = self.args.recursive || self.args.totals_only;
        let mut found = false;
        for page in self.client.pages(prefix, !recursive) {
            let page = page?;
            found |= self.page(page.objects.iter(), &page.prefixes)?;
            if self.lines.is_closed() {
                break;
            }
        }
        Ok(found)
    }

    /// Lists the objects that match a pattern. Returns whether there are any.
    fn matches(&mut self, key: &str) -> Result<bool> {
        let into = self.args.recursive || self.args.totals_only || key.ends_with('/');
        let pattern = KeyPattern::new(self.client, key)?;
        let mut found = false;
        pattern.each_page(&mut |page| {
            let objects = page.objects.iter().filter(|object| pattern.matches(&object.key));
            found |= self.page(objects, if into { &[] } else { &page.prefixes })?;
            for prefix in page.prefixes.iter().filter(|_| into) {
                found |= self.below(prefix)?;
            }
            Ok(if self.lines.is_closed() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok(found)
    }

    /// Prints a page. Returns whether it has anything.
    fn page<'o>(&mut self, objects: impl Iterator<Item = &'o Object>, prefixes: &[String]) -> Result<bool> {
        let json = self.args.json;
        let mut found = !prefixes.is_empty();
        self.lines.write(std::mem::take(&mut self.heading));
        for prefix in prefixes {
            self.lines.write(&if json { prefix_json(prefix) } else { prefix_line(prefix) });
        }
        for object in objects {
            found = true;
            if !self.selection.takes(object)? {
                continue;
            }
            self.count += 1;
            self.len = self.len.saturating_add(object.len);
            if !self.args.totals_only {
                self.lines.write(&if json { object_json(object) } else { object_line(object) });
            }
        }
        self.lines.flush();
        Ok(found)
    }

    fn end(&mut self) -> Result<Exit> {
        if self.args.summarize || self.args.totals_only {
            let (count, len) = (self.count, self.len);
            self.lines.write(&if self.args.json {
                total_json("objects", count, len)
            } else {
                total_line("object", count, len)
            });
        }
        self.lines.end(Exit::Done)
    }
}
