//! The entries of a ticket cache, as MIT Kerberos writes it into a file (version 4 of the format).

/// The version at the beginning.
pub(super) const VERSION: u16 = 0x0504;
/// The most components of a name.
const COMPONENTS: usize = 16;

/// A name of a user or of a service.
pub(super) struct CachePrincipal<'a> {
    pub(super) realm: &'a [u8],
    pub(super) components: Vec<&'a [u8]>,
}

/// A ticket in a cache.
pub(super) struct CacheEntry<'a> {
    pub(super) client: CachePrincipal<'a>,
    pub(super) server: CachePrincipal<'a>,
    pub(super) key_type: u16,
    pub(super) key: &'a [u8],
    /// The seconds from 1970 to its end.
    pub(super) ends: u32,
    pub(super) ticket: &'a [u8],
}

/// The last ticket for a service, such as `cifs`, at any host; `None` inside if there is none, and outside if the cache is
/// damaged.
pub(super) fn last_for<'a>(service: &[u8], cache: &'a [u8]) -> Option<Option<CacheEntry<'a>>> {
    let mut rest = Bytes(cache);
    if rest.short()? != VERSION {
        return None;
    }
    let header = rest.short()?;
    rest.take(header.into())?;
    rest.principal()?;
    let mut last = None;
    while !rest.0.is_empty() {
        let entry = rest.entry()?;
        if entry.server.components.len() == 2 && entry.server.components[0] == service {
            last = Some(entry);
        }
    }
    Some(last)
}

/// The bytes that are left.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn short(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    fn number(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    /// Bytes after their length.
    fn counted(&mut self) -> Option<&'a [u8]> {
        let len = self.number()?;
        self.take(usize::try_from(len).ok()?)
    }

    fn principal(&mut self) -> Option<CachePrincipal<'a>> {
        let _kind = self.number()?;
        let count = usize::try_from(self.number()?).ok().filter(|count| *count <= COMPONENTS)?;
        let realm = self.counted()?;
        let components = (0..count).map(|_| self.counted()).collect::<Option<_>>()?;
        Some(CachePrincipal { realm, components })
    }

    /// Skips a list of addresses or of data for the server.
    fn skip_list(&mut self) -> Option<()> {
        // Each item is at least six bytes long, so the end of the cache ends this, whatever the count is.
        for _ in 0..self.number()? {
            let _kind = self.short()?;
            self.counted()?;
        }
        Some(())
    }

    fn entry(&mut self) -> Option<CacheEntry<'a>> {
        let (client, server) = (self.principal()?, self.principal()?);
        let (key_type, key) = (self.short()?, self.counted()?);
        let [_made, _begins, ends, _renewed] =
            [self.number()?, self.number()?, self.number()?, self.number()?];
        let _is_for_user = self.take(1)?;
        let _flags = self.number()?;
        self.skip_list()?;
        self.skip_list()?;
        let (ticket, _second) = (self.counted()?, self.counted()?);
        Some(CacheEntry { client, server, key_type, key, ends, ticket })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The ticket of all entries.
    pub(crate) const TICKET: &[u8] = b"sealed";

    /// Writes a cache for a user of the realm HERE.
    pub(crate) struct CacheWriter {
        pub(crate) bytes: Vec<u8>,
        client: Vec<u8>,
    }

    fn counted(bytes: &[u8]) -> Vec<u8> {
        [&u32::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
    }

    fn principal(components: &[&str]) -> Vec<u8> {
        let count = u32::try_from(components.len()).unwrap();
        let mut bytes = [1_u32.to_be_bytes(), count.to_be_bytes()].concat();
        bytes.extend(counted(b"HERE"));
        components.iter().for_each(|part| bytes.extend(counted(part.as_bytes())));
        bytes
    }

    impl CacheWriter {
        pub(crate) fn new(client: &[&str]) -> Self {
            let client = principal(client);
            let mut bytes = vec![5, 4, 0, 12];
            bytes.extend([0, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0]);
            bytes.extend(&client);
            Self { bytes, client }
        }

        pub(crate) fn entry(&mut self, server: &[&str], key_type: u16, key: &[u8], ends: u32) {
            self.bytes.extend(&self.client);
            self.bytes.extend(principal(server));
            self.bytes.extend(key_type.to_be_bytes());
            self.bytes.extend(counted(key));
            [0, 0, ends, 0].iter().for_each(|time: &u32| self.bytes.extend(time.to_be_bytes()));
            self.bytes.extend([0; 5]);
            // One address, no data for the server.
            self.bytes.extend([0, 0, 0, 1, 0, 2]);
            self.bytes.extend(counted(&[127, 0, 0, 1]));
            self.bytes.extend([0; 4]);
            self.bytes.extend(counted(TICKET));
            self.bytes.extend(counted(b""));
        }
    }

    #[test]
    fn a_cache_that_ends_early_or_lies_about_a_length_is_damaged() {
        let mut cache = CacheWriter::new(&["me"]);
        let empty = cache.bytes.len();
        assert!(last_for(b"cifs", &cache.bytes).unwrap().is_none());
        cache.entry(&["cifs", "nas"], 18, &[1; 32], 7);
        assert_eq!(last_for(b"cifs", &cache.bytes).unwrap().unwrap().ends, 7);
        for len in (0..cache.bytes.len()).filter(|len| *len != empty) {
            assert!(last_for(b"cifs", &cache.bytes[..len]).is_none(), "{len}");
        }
        for at in 4..cache.bytes.len() - 3 {
            let mut lying = cache.bytes.clone();
            lying[at..at + 4].fill(0xff);
            // It may be one still: but nothing may panic or take memory.
            let _ = last_for(b"cifs", &lying);
        }
        cache.bytes[1] = 3;
        assert!(last_for(b"cifs", &cache.bytes).is_none(), "another version");
    }
}
