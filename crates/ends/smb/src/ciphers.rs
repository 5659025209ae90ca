//! The ciphers that a request for a negotiation offers.

/// Where the list of contexts begins, and how many there are, in the request.
const OFFSET: usize = 64 + 28;
const COUNT: usize = 64 + 32;
/// Each context has a type, a length and four bytes that mean nothing. It begins at a multiple of its length.
const HEADER: usize = 8;
/// The type of the context with the ciphers.
const ENCRYPTION: u16 = 2;
/// AES-128-CCM and AES-128-GCM. Those of AES-256 follow.
const AES_128: [u16; 2] = [1, 2];

/// The request with the ciphers of AES-128 only. `None` if it offers no cipher or makes no sense.
pub(super) fn without_aes_256(request: &[u8]) -> Option<Vec<u8>> {
    let begin =
        usize::try_from(u32::from_le_bytes(request.get(OFFSET..OFFSET + 4)?.try_into().ok()?)).ok()?;
    let mut rest = request.get(begin..)?;
    let mut changed = request.get(..begin)?.to_vec();
    let mut has_changed = false;
    for _ in 0..short(request, COUNT)? {
        let (kind, len) = (short(rest, 0)?, usize::from(short(rest, 2)?));
        let data = rest.get(HEADER..HEADER + len)?;
        let data = if kind == ENCRYPTION {
            has_changed = true;
            of_aes_128(data)?
        } else {
            data.to_vec()
        };
        changed.resize(changed.len().next_multiple_of(HEADER), 0);
        changed.extend_from_slice(&kind.to_le_bytes());
        changed.extend_from_slice(&u16::try_from(data.len()).ok()?.to_le_bytes());
        changed.extend_from_slice(&[0; 4]);
        changed.extend(data);
        rest = rest.get((HEADER + len).next_multiple_of(HEADER)..).unwrap_or_default();
    }
    has_changed.then_some(changed)
}

/// The list of ciphers, after their number.
fn of_aes_128(data: &[u8]) -> Option<Vec<u8>> {
    let offered = data.get(2..)?.chunks_exact(2).map(|id| u16::from_le_bytes([id[0], id[1]]));
    let kept: Vec<u16> = offered.filter(|id| AES_128.contains(id)).collect();
    let number = u16::try_from(kept.len()).ok().filter(|number| *number > 0)?;
    Some([number].iter().chain(&kept).flat_map(|value| value.to_le_bytes()).collect())
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request with these contexts.
    fn request(contexts: &[(u16, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![7; 112];
        bytes[OFFSET..OFFSET + 4].copy_from_slice(&112_u32.to_le_bytes());
        bytes[COUNT..COUNT + 2].copy_from_slice(&u16::try_from(contexts.len()).unwrap().to_le_bytes());
        for (kind, data) in contexts {
            bytes.resize(bytes.len().next_multiple_of(8), 0);
            bytes.extend(kind.to_le_bytes());
            bytes.extend(u16::try_from(data.len()).unwrap().to_le_bytes());
            bytes.extend([0; 4]);
            bytes.extend(*data);
        }
        bytes
    }

    #[test]
    fn aes_256_is_offered_no_more_and_the_rest_stays() {
        let others: [(u16, &[u8]); 2] = [(1, &[1, 0, 32, 0, 1, 0, 9, 9, 9]), (8, &[3, 0, 2, 0, 1, 0, 0, 0])];
        let of = |ciphers| request(&[others[0], (2, ciphers), others[1]]);
        let all = of(&[4, 0, 2, 0, 1, 0, 4, 0, 3, 0]);
        assert_eq!(without_aes_256(&all).unwrap(), of(&[2, 0, 2, 0, 1, 0]));
        assert_eq!(without_aes_256(&request(&others)), None);
        for len in 0..all.len() {
            let cut = without_aes_256(&all[..len]);
            assert_eq!(cut, None, "{len}");
        }
        assert_eq!(without_aes_256(&of(&[1, 0, 4, 0])), None, "there is nothing to offer");
    }
}
