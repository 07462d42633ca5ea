//! Objects as one pack with its index (both of version 2), in memory.
//!
//! A commit of a few hundred files would be as many loose files, each to be synced on its own. As a pack it is two.
//! Objects are stored whole, without deltas: they are few, and the next repack finds better deltas than we would.

use gix::{
    hash::hasher,
    objs::Kind,
    zlib::{
        Compression, Status,
        stream::deflate::{Compress, CompressError, FlushCompress},
    },
};

use super::batch::Object;

/// Objects that cannot be packed.
#[derive(Debug, thiserror::Error)]
pub(super) enum PackError {
    /// The compressor gave up.
    #[error("cannot compress an object")]
    Compress(#[from] CompressError),
    /// The compressor did not reach its end.
    #[error("the compressor did not come to an end")]
    Unfinished,
    /// The hash function noticed an attempt at a collision.
    #[error("cannot compute a checksum")]
    Hash(#[from] hasher::Error),
    /// An index counts in 31 bits.
    #[error("the objects take more than 2 GiB; write fewer at once")]
    TooLarge,
}

/// A pack and its index.
#[derive(Debug)]
pub(super) struct Pack {
    /// The checksum that the files are named after.
    pub(super) name: gix::ObjectId,
    pub(super) data: Vec<u8>,
    pub(super) index: Vec<u8>,
}

struct Packed {
    id: gix::ObjectId,
    offset: u32,
    crc: u32,
}

/// Packs objects. The same objects in the same order give the same bytes.
pub(super) fn encode(objects: &[Object], hash: gix::hash::Kind) -> Result<Pack, PackError> {
    let count = u32::try_from(objects.len()).map_err(|_| PackError::TooLarge)?;
    let mut data =
        Vec::with_capacity(32 + objects.iter().map(|object| object.data.len() / 2 + 64).sum::<usize>());
    data.extend_from_slice(b"PACK");
    data.extend_from_slice(&2u32.to_be_bytes());
    data.extend_from_slice(&count.to_be_bytes());
    let mut deflate = Deflate::new();
    let mut packed = Vec::with_capacity(objects.len());
    for object in objects {
        let start = data.len();
        let offset =
            u32::try_from(start).ok().filter(|offset| offset >> 31 == 0).ok_or(PackError::TooLarge)?;
        entry_header(&mut data, object.kind, object.data.len());
        deflate.append(&object.data, &mut data)?;
        packed.push(Packed { id: object.id, offset, crc: gix::features::hash::crc32(&data[start..]) });
    }
    let name = checksum(&data, hash)?;
    data.extend_from_slice(name.as_bytes());
    let index = index(packed, name, hash)?;
    Ok(Pack { name, data, index })
}

/// Compresses one object after the other with the same memory.
struct Deflate(Compress);

impl Deflate {
    fn new() -> Self {
        // What git uses for new objects: twice as fast as the default for a few per cent of size.
        Self(Compress::new(Compression::BEST_SPEED))
    }

    /// Appends the compressed input to the output.
    fn append(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<(), PackError> {
        self.0.reset();
        let start = output.len();
        // Deflate's own worst case: stored blocks of 16 KiB, five bytes each, and the frame.
        output.resize(start + input.len() + input.len() / 1000 + 128, 0);
        let status = self.0.compress(input, &mut output[start..], FlushCompress::Finish)?;
        let written = usize::try_from(self.0.total_out()).unwrap_or(usize::MAX);
        if status != Status::StreamEnd || written > output.len() - start {
            return Err(PackError::Unfinished);
        }
        output.truncate(start + written);
        Ok(())
    }
}

/// Kind and size: four bits of the size in the first byte, seven in each that follows.
fn entry_header(data: &mut Vec<u8>, kind: Kind, size: usize) {
    let kind: u8 = match kind {
        Kind::Commit => 1,
        Kind::Tree => 2,
        Kind::Blob => 3,
        Kind::Tag => 4,
    };
    let low = |size: usize, bits: u32| u8::try_from(size & ((1 << bits) - 1)).unwrap_or_default();
    let mut byte = (kind << 4) | low(size, 4);
    let mut rest = size >> 4;
    while rest > 0 {
        data.push(byte | 0x80);
        byte = low(rest, 7);
        rest >>= 7;
    }
    data.push(byte);
}

fn index(mut packed: Vec<Packed>, pack: gix::ObjectId, hash: gix::hash::Kind) -> Result<Vec<u8>, PackError> {
    packed.sort_unstable_by_key(|object| object.id);
    let mut out = Vec::with_capacity(1100 + packed.len() * 28);
    out.extend_from_slice(b"\xfftOc");
    out.extend_from_slice(&2u32.to_be_bytes());
    let mut counts = [0u32; 256];
    for object in &packed {
        counts[usize::from(object.id.first_byte())] += 1;
    }
    let mut total = 0;
    for count in counts {
        total += count;
        out.extend_from_slice(&total.to_be_bytes());
    }
    for object in &packed {
        out.extend_from_slice(object.id.as_bytes());
    }
    for object in &packed {
        out.extend_from_slice(&object.crc.to_be_bytes());
    }
    for object in &packed {
        out.extend_from_slice(&object.offset.to_be_bytes());
    }
    out.extend_from_slice(pack.as_bytes());
    let name = checksum(&out, hash)?;
    out.extend_from_slice(name.as_bytes());
    Ok(out)
}

fn checksum(data: &[u8], hash: gix::hash::Kind) -> Result<gix::ObjectId, hasher::Error> {
    let mut hasher = gix::hash::hasher(hash);
    hasher.update(data);
    hasher.try_finalize()
}
