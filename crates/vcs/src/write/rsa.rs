//! RSA signatures with ring, the one crypto library of the house.
//!
//! The ssh-key crate (0.6) takes the first prime for the second as well and so cannot sign with RSA; and the crate that it
//! would use does not hide how long a signature takes.

use ring::{
    rand::SystemRandom,
    rsa::{KeyPairComponents, PublicKeyComponents},
    signature::{RSA_PKCS1_SHA512, RsaKeyPair},
};
use ssh_key::{Algorithm, HashAlg, Mpint, Signature, private::RsaKeypair};

/// A key that signs as `rsa-sha2-512`; `None` when the key is too small, too large or inconsistent.
pub(super) fn signer(pair: &RsaKeypair) -> Option<RsaKeyPair> {
    let (p, q, d) = (positive(&pair.private.p)?, positive(&pair.private.q)?, positive(&pair.private.d)?);
    let components = KeyPairComponents {
        public_key: PublicKeyComponents { n: positive(&pair.public.n)?, e: positive(&pair.public.e)? },
        d,
        p,
        q,
        dP: &remainder(d, &minus_one(p))[..],
        dQ: &remainder(d, &minus_one(q))[..],
        qInv: positive(&pair.private.iqmp)?,
    };
    RsaKeyPair::from_components(&components).ok()
}

/// Signs; the same data gets the same signature every time.
pub(super) fn sign(key: &RsaKeyPair, data: &[u8]) -> ssh_key::Result<Signature> {
    let mut signature = vec![0; key.public().modulus_len()];
    key.sign(&RSA_PKCS1_SHA512, &SystemRandom::new(), data, &mut signature)
        .map_err(|_| ssh_key::Error::Crypto)?;
    Signature::new(Algorithm::Rsa { hash: Some(HashAlg::Sha512) }, signature)
}

fn positive(number: &Mpint) -> Option<&[u8]> {
    number.as_positive_bytes()
}

/// An odd number less one. Primes are odd, so there is nothing to borrow.
fn minus_one(prime: &[u8]) -> Vec<u8> {
    let mut number = prime.to_vec();
    if let Some(last) = number.last_mut() {
        *last &= 0xfe;
    }
    number
}

/// The remainder of a division of big-endian numbers, by long division in base two.
fn remainder(number: &[u8], divisor: &[u8]) -> Vec<u8> {
    // One byte more, since the rest is doubled before it is compared.
    let divisor = [&[0], divisor].concat();
    let mut rest = vec![0u8; divisor.len()];
    for bit in number.iter().flat_map(|byte| (0..8).rev().map(move |place| (byte >> place) & 1)) {
        let mut carry = bit;
        for byte in rest.iter_mut().rev() {
            (*byte, carry) = ((*byte << 1) | carry, *byte >> 7);
        }
        if rest >= divisor {
            subtract(&mut rest, &divisor);
        }
    }
    let start = rest.iter().position(|byte| *byte != 0).unwrap_or(rest.len());
    rest.split_off(start)
}

fn subtract(number: &mut [u8], less: &[u8]) {
    let mut borrow = false;
    for (byte, less) in number.iter_mut().zip(less).rev() {
        let (once, first) = byte.overflowing_sub(*less);
        let (twice, second) = once.overflowing_sub(u8::from(borrow));
        (*byte, borrow) = (twice, first || second);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remainders_are_those_of_whole_numbers() {
        let bytes = |number: u128| number.to_be_bytes();
        for (number, divisor) in
            [(1000, 7), (u128::MAX, 0xffff_ffff), (5, 900), (1 << 100, (1 << 50) + 1), (0, 3), (12, 4)]
        {
            let wanted = bytes(number % divisor);
            let start = wanted.iter().position(|byte| *byte != 0).unwrap_or(16);
            let divisor = bytes(divisor);
            let whole = divisor.iter().position(|byte| *byte != 0).unwrap();
            assert_eq!(remainder(&bytes(number), &divisor[whole..]), wanted[start..], "{number}");
        }
    }
}
