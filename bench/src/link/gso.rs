//! Super-packets, read from a TUN device with `IFF_VNET_HDR`: the segments that such a packet would be on a wire, and
//! how to cut some of them out.
//!
//! Such a packet begins with a `struct virtio_net_hdr` and the IP header. With TSO on, one packet stands for up to 44
//! segments of one TCP stream. Loss and queue limits apply to segments, so that one lost segment does not lose the 43
//! others.

use std::ops::Range;

/// Length of the header that precedes every packet.
pub(crate) const VNET_LEN: usize = 10;
/// The longest packet there can be, with its header.
pub(crate) const MAX_PACKET: usize = VNET_LEN + 65_536;

const GSO_TCPV4: u8 = 1;
const GSO_MASK: u8 = 0x7f;
const TCP: u8 = 6;

const FIN_PSH: u8 = 0x09;
const CWR: u8 = 0x80;

/// The segments and headers of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PacketShape {
    /// Segments on the wire, at least 1.
    pub(crate) segments: usize,
    /// Bytes of payload in each segment but the last; 0 for a packet of one segment.
    size: usize,
    /// IP and TCP header.
    header: usize,
    /// Payload of all segments.
    payload: usize,
    /// Whether [`cut`] can take it apart.
    splittable: bool,
}

impl PacketShape {
    /// Reads the headers of a packet.
    pub(crate) fn of(packet: &[u8]) -> Self {
        let length = packet.len().saturating_sub(VNET_LEN);
        let single = Self { segments: 1, size: 0, header: 0, payload: length, splittable: false };
        if length < 40 {
            return single;
        }
        let kind = packet[1] & GSO_MASK;
        let size = usize::from(u16::from_ne_bytes([packet[4], packet[5]]));
        if kind == 0 || size == 0 {
            return single;
        }
        let ip = &packet[VNET_LEN..];
        let splittable = kind == GSO_TCPV4 && ip[0] >> 4 == 4 && ip[9] == TCP;
        let header = if splittable {
            let ip_header = usize::from(ip[0] & 15) * 4;
            match ip.get(ip_header + 12) {
                Some(offset) => ip_header + usize::from(offset >> 4) * 4,
                None => return single,
            }
        } else {
            // The device's own idea of the length of the headers.
            usize::from(u16::from_ne_bytes([packet[2], packet[3]])).clamp(40, 120)
        };
        if header >= length {
            return single;
        }
        let payload = length - header;
        Self { segments: payload.div_ceil(size), size, header, payload, splittable }
    }

    /// Bytes that the given segments take on the wire, IP headers included.
    pub(crate) fn wire_bytes(&self, range: &Range<usize>) -> u64 {
        if self.size == 0 {
            return self.payload as u64;
        }
        let data = self.span(range).len();
        (data + range.len() * self.header) as u64
    }

    /// Whether parts of this packet can be sent on.
    pub(crate) fn can_cut(&self) -> bool {
        self.splittable && self.segments > 1
    }

    fn span(&self, range: &Range<usize>) -> Range<usize> {
        range.start * self.size..(range.end * self.size).min(self.payload)
    }
}

/// Writes the given segments of a packet to `out` as a packet of their own, and returns its
/// length. The packet must be one that [`PacketShape::can_cut`].
pub(crate) fn cut(packet: &[u8], shape: &PacketShape, range: &Range<usize>, out: &mut [u8]) -> usize {
    let span = shape.span(range);
    let start = VNET_LEN + shape.header;
    let length = start + span.len();
    out[..start].copy_from_slice(&packet[..start]);
    out[start..length].copy_from_slice(&packet[start + span.start..start + span.end]);

    if range.len() <= 1 {
        out[1] = 0;
        out[4..6].fill(0);
    }
    let ip = &mut out[VNET_LEN..start];
    let total = (shape.header + span.len()) as u16;
    let ip_header = usize::from(ip[0] & 15) * 4;
    ip[2..4].copy_from_slice(&total.to_be_bytes());
    let id = u16::from_be_bytes([ip[4], ip[5]]).wrapping_add(range.start as u16);
    ip[4..6].copy_from_slice(&id.to_be_bytes());
    ip[10..12].fill(0);
    let sum = !fold(sum_words(&ip[..ip_header]));
    ip[10..12].copy_from_slice(&sum.to_be_bytes());

    // The checksum field of a packet whose checksum is left to the device holds the sum of the
    // pseudo header.
    let tcp_length = u32::from(total) - ip_header as u32;
    let pseudo = fold(sum_words(&ip[12..20]) + u32::from(TCP) + tcp_length);
    let tcp = &mut ip[ip_header..];
    let sequence =
        u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]).wrapping_add((range.start * shape.size) as u32);
    tcp[4..8].copy_from_slice(&sequence.to_be_bytes());
    if range.end < shape.segments {
        tcp[13] &= !FIN_PSH;
    }
    if range.start > 0 {
        tcp[13] &= !CWR;
    }
    tcp[16..18].copy_from_slice(&pseudo.to_be_bytes());
    length
}

fn sum_words(bytes: &[u8]) -> u32 {
    bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |b| u32::from(*b))).sum()
}

fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(payload: usize, size: u16) -> Vec<u8> {
        let mut p = vec![0u8; VNET_LEN + 40 + payload];
        p[0] = 1;
        p[1] = GSO_TCPV4;
        p[4..6].copy_from_slice(&size.to_ne_bytes());
        let ip = &mut p[VNET_LEN..];
        ip[0] = 0x45;
        let total = (40 + payload) as u16;
        ip[2..4].copy_from_slice(&total.to_be_bytes());
        ip[9] = TCP;
        ip[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        ip[20 + 4..20 + 8].copy_from_slice(&1000u32.to_be_bytes());
        ip[20 + 12] = 0x50;
        ip[20 + 13] = 0x19;
        for (i, b) in ip[40..].iter_mut().enumerate() {
            *b = (i / usize::from(size)) as u8;
        }
        p
    }

    #[test]
    fn segments_are_counted() {
        let shape = PacketShape::of(&packet(4000, 1000));
        assert_eq!(shape.segments, 4);
        assert_eq!(shape.wire_bytes(&(0..4)), 4000 + 4 * 40);
        let shape = PacketShape::of(&packet(4001, 1000));
        assert_eq!(shape.segments, 5);
        assert_eq!(shape.wire_bytes(&(4..5)), 1 + 40);
        let mut plain = packet(500, 1000);
        plain[1] = 0;
        assert_eq!(PacketShape::of(&plain).wire_bytes(&(0..1)), 540);
        assert_eq!(PacketShape::of(&[0; 3]).segments, 1);
    }

    #[test]
    fn a_middle_part_is_cut_out() {
        let whole = packet(4500, 1000);
        let shape = PacketShape::of(&whole);
        let mut out = vec![0; MAX_PACKET];
        let length = cut(&whole, &shape, &(1..3), &mut out);
        let part = PacketShape::of(&out[..length]);
        assert_eq!((part.segments, part.payload), (2, 2000));
        let ip = &out[VNET_LEN..length];
        assert_eq!(fold(sum_words(&ip[..20])), 0xffff);
        assert_eq!(ip[24..28], 2000u32.to_be_bytes());
        assert_eq!(ip[33], 0x10, "FIN and PSH belong to the last segment");
        assert!(ip[40..1040].iter().all(|b| *b == 1) && ip[1040..].iter().all(|b| *b == 2));

        let length = cut(&whole, &shape, &(4..5), &mut out);
        let ip = &out[VNET_LEN..length];
        assert_eq!((ip.len(), ip[33]), (540, 0x19));
        assert_eq!(out[1], 0, "one segment needs no further cutting");
    }
}
