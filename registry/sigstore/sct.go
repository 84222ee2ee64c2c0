package sigstore

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"time"

	"golang.org/x/crypto/cryptobyte"
	cryptoasn1 "golang.org/x/crypto/cryptobyte/asn1"
)

// sctOID is that of embedded signed certificate timestamps (RFC 6962 §3.3).
var sctOID = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 11129, 2, 4, 2}

// maxSCTs bounds the timestamps of a certificate.
const maxSCTs = 32

// sct is a signed certificate timestamp.
type sct struct {
	logID      string
	timestamp  uint64 // milliseconds since 1970
	extensions []byte
	signature  []byte
}

// transparent checks that a log of certificates of the root signed a timestamp about the
// certificate, as issued by the issuer of one of chains.
func (b *Bundle) transparent(r *Root, chains [][]*x509.Certificate) error {
	list, err := scts(b.leaf)
	if err != nil {
		return fault(CheckTransparent, "%v", err)
	}
	tbs, err := precertificate(b.leaf.RawTBSCertificate)
	if err != nil {
		return fault(CheckTransparent, "%v", err)
	}
	why := fault(CheckTransparent, "%d timestamps, none of a log that the trusted root names", len(list))
	for _, s := range list {
		l, ok := r.ctLogs[s.logID]
		if !ok {
			continue
		}
		if when := time.UnixMilli(int64(s.timestamp)); !l.valid.holds(when) {
			why = fault(CheckTransparent, "the log's key counts %s, the timestamp is of %s", l.valid, when.UTC().Format(time.RFC3339))
			continue
		}
		for _, chain := range chains {
			if len(chain) > 1 && verifyLog(l.key, s.message(chain[1], tbs), s.signature) {
				return nil
			}
		}
		why = fault(CheckTransparent, "not signed by the log for this certificate")
	}
	return why
}

// message returns the bytes that a log signs for a certificate before the timestamps are
// added (RFC 6962 §3.2).
func (s sct) message(issuer *x509.Certificate, tbs []byte) []byte {
	sum := sha256.Sum256(issuer.RawSubjectPublicKeyInfo)
	var m cryptobyte.Builder
	m.AddUint8(0) // v1
	m.AddUint8(0) // certificate_timestamp
	m.AddUint64(s.timestamp)
	m.AddUint16(1) // precert_entry
	m.AddBytes(sum[:])
	m.AddUint24LengthPrefixed(func(c *cryptobyte.Builder) { c.AddBytes(tbs) })
	m.AddUint16LengthPrefixed(func(c *cryptobyte.Builder) { c.AddBytes(s.extensions) })
	return m.BytesOrPanic() // the parts came from a certificate and fit
}

// scts reads the timestamps of a certificate.
func scts(c *x509.Certificate) (list []sct, err error) {
	for _, e := range c.Extensions {
		if !e.Id.Equal(sctOID) {
			continue
		}
		in := cryptobyte.String(e.Value)
		var octets, all cryptobyte.String
		if !in.ReadASN1(&octets, cryptoasn1.OCTET_STRING) || !in.Empty() || !octets.ReadUint16LengthPrefixed(&all) || !octets.Empty() {
			return nil, errors.New("not a list of timestamps")
		}
		for !all.Empty() {
			var one cryptobyte.String
			if !all.ReadUint16LengthPrefixed(&one) || len(list) == maxSCTs {
				return nil, errors.New("a truncated or too long list of timestamps")
			}
			s, ok := readSCT(one)
			if !ok {
				return nil, errors.New("an unknown form of timestamp")
			}
			list = append(list, s)
		}
	}
	return list, nil
}

// readSCT reads one timestamp. The algorithm that it states is not used: the key decides.
func readSCT(in cryptobyte.String) (s sct, ok bool) {
	var version, hash, algorithm uint8
	var id []byte
	var extensions, signature cryptobyte.String
	ok = in.ReadUint8(&version) && version == 0 && in.ReadBytes(&id, sha256.Size) && in.ReadUint64(&s.timestamp) &&
		in.ReadUint16LengthPrefixed(&extensions) && in.ReadUint8(&hash) && in.ReadUint8(&algorithm) &&
		in.ReadUint16LengthPrefixed(&signature) && in.Empty() && s.timestamp < 1<<62
	s.logID, s.extensions, s.signature = string(id), extensions, signature
	return s, ok
}

// precertificate returns the part of a certificate to be signed without its timestamps.
func precertificate(tbs []byte) ([]byte, error) {
	errForm := errors.New("a certificate of an unknown form")
	in := cryptobyte.String(tbs)
	var fields cryptobyte.String
	if !in.ReadASN1(&fields, cryptoasn1.SEQUENCE) || !in.Empty() {
		return nil, errForm
	}
	var kept []byte
	extensions := cryptoasn1.Tag(3).ContextSpecific().Constructed()
	for !fields.Empty() {
		var one cryptobyte.String
		var tag cryptoasn1.Tag
		if !fields.ReadAnyASN1Element(&one, &tag) {
			return nil, errForm
		}
		if tag == extensions {
			var err error
			if one, err = withoutSCTs(one, extensions); err != nil {
				return nil, err
			}
		}
		kept = append(kept, one...)
	}
	var out cryptobyte.Builder
	out.AddASN1(cryptoasn1.SEQUENCE, func(c *cryptobyte.Builder) { c.AddBytes(kept) })
	return out.Bytes()
}

// withoutSCTs returns the extensions of a certificate without the timestamps.
func withoutSCTs(in cryptobyte.String, tag cryptoasn1.Tag) ([]byte, error) {
	var outer, list cryptobyte.String
	if !in.ReadASN1(&outer, tag) || !outer.ReadASN1(&list, cryptoasn1.SEQUENCE) || !outer.Empty() {
		return nil, errors.New("extensions of an unknown form")
	}
	var kept []byte
	for !list.Empty() {
		var one, content cryptobyte.String
		var id asn1.ObjectIdentifier
		if !list.ReadASN1Element(&one, cryptoasn1.SEQUENCE) {
			return nil, errors.New("extensions of an unknown form")
		}
		if copied := one; !copied.ReadASN1(&content, cryptoasn1.SEQUENCE) || !content.ReadASN1ObjectIdentifier(&id) {
			return nil, errors.New("an extension of an unknown form")
		}
		if !id.Equal(sctOID) {
			kept = append(kept, one...)
		}
	}
	var out cryptobyte.Builder
	out.AddASN1(tag, func(c *cryptobyte.Builder) {
		c.AddASN1(cryptoasn1.SEQUENCE, func(c *cryptobyte.Builder) { c.AddBytes(kept) })
	})
	return out.Bytes()
}
