package pii

import (
	"crypto/sha256"
	"math/big"
	"strings"
)

// lengths of IBANs by country.
const lengths = "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 EG29 ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30 "

// iban looks at the IBAN that begins at i, with or without spaces.
func (s *scan) iban(i int) {
	if !upper(s.at(i)) || !upper(s.at(i+1)) || !digit(s.at(i+2)) || !digit(s.at(i+3)) {
		return
	}
	at := strings.Index(lengths, s.text[i:i+2])
	if at < 0 || at%5 != 0 {
		return
	}
	want := int(lengths[at+2]-'0')*10 + int(lengths[at+3]-'0')
	chars := make([]byte, 0, want)
	to := i
	for ; to < len(s.text) && to-i < maxIBAN && len(chars) < want; to++ {
		c := s.text[to]
		if c == ' ' || c == '-' {
			if len(chars)%4 != 0 {
				return
			}
			continue
		}
		if !upper(c) && !digit(c) {
			return
		}
		chars = append(chars, c)
	}
	if len(chars) == want && !alnum(s.at(to)) && mod97(chars) == 1 {
		s.add(IBAN, i, to, 1)
	}
}

// mod97 returns the remainder of an IBAN whose first four characters move to the
// end.
func mod97(chars []byte) int {
	r := 0
	for i := range chars {
		c := chars[(i+4)%len(chars)]
		if digit(c) {
			r = (10*r + int(c-'0')) % 97
		} else {
			r = (100*r + int(c-'A') + 10) % 97
		}
	}
	return r
}

const (
	base58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
	bech32 = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
)

// bitcoin looks at the address that begins at i.
func (s *scan) bitcoin(i int) {
	c := s.text[i]
	if c != '1' && c != '3' && c != 'b' && c != 'B' {
		return
	}
	to := i
	for to < len(s.text) && to-i <= maxAddress && alnum(s.text[to]) {
		to++
	}
	word := s.text[i:to]
	switch {
	case len(word) > maxAddress || s.at(to) == '_':
	case (c == '1' || c == '3') && len(word) >= 26 && len(word) <= 35 && base58Check(word),
		len(word) >= 42 && (strings.HasPrefix(word, "bc1") || strings.HasPrefix(word, "BC1")) && bech32Check(word):
		s.add(Bitcoin, i, to, 1)
	}
}

// base58Check reports whether the checksum of an address is right.
func base58Check(word string) bool {
	n := new(big.Int)
	for _, c := range []byte(word) {
		v := strings.IndexByte(base58, c)
		if v < 0 {
			return false
		}
		n.Add(n.Mul(n, big.NewInt(58)), big.NewInt(int64(v)))
	}
	if n.BitLen() > 25*8 {
		return false
	}
	b := n.FillBytes(make([]byte, 25))
	once := sha256.Sum256(b[:21])
	twice := sha256.Sum256(once[:])
	return string(b[21:]) == string(twice[:4]) && (b[0] == 0 || b[0] == 5)
}

// bech32Check reports whether the checksum of an address bc1… is right, by
// BIP 173 or BIP 350.
func bech32Check(word string) bool {
	if word != strings.ToLower(word) && word != strings.ToUpper(word) {
		return false
	}
	sum := uint32(1)
	step := func(v byte) {
		top := sum >> 25
		sum = sum&0x1ffffff<<5 ^ uint32(v)
		for i, g := range [5]uint32{0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3} {
			if top>>i&1 == 1 {
				sum ^= g
			}
		}
	}
	for _, v := range []byte{'b' >> 5, 'c' >> 5, 0, 'b' & 31, 'c' & 31} {
		step(v)
	}
	for _, c := range []byte(strings.ToLower(word[3:])) {
		v := strings.IndexByte(bech32, c)
		if v < 0 {
			return false
		}
		step(byte(v))
	}
	return sum == 1 || sum == 0x2bc830a3
}
