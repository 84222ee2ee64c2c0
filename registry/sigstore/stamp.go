package sigstore

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/digitorus/pkcs7"
	"github.com/digitorus/timestamp"
)

// maxStamp bounds one response of an authority, in bytes.
const maxStamp = 64 << 10

// stamped returns the times at which authorities of the root saw the signature, and why
// the other time stamps do not count, for a message.
func (b *Bundle) stamped(r *Root) (times []time.Time, rejected string) {
	for _, data := range b.stamps {
		why := errors.New("the trusted root names no authority for time stamps")
		for _, a := range r.stampers {
			var t time.Time
			if t, why = a.stamp(data, b.signature); why == nil {
				times = append(times, t)
				break
			}
		}
		if why != nil {
			rejected += "; time stamp: " + clip(why.Error())
		}
	}
	return times, rejected
}

// stamp verifies a response of RFC 3161 about the signature.
func (a authority) stamp(data, signature []byte) (time.Time, error) {
	if len(data) > maxStamp {
		return time.Time{}, fmt.Errorf("got %d bytes, want at most %d", len(data), maxStamp)
	}
	ts, err := timestamp.ParseResponse(data)
	if err != nil {
		return time.Time{}, err
	}
	if h := ts.HashAlgorithm; h != crypto.SHA256 && h != crypto.SHA384 && h != crypto.SHA512 {
		return time.Time{}, fmt.Errorf("hash %v is not supported", h)
	}
	if !bytes.Equal(sum(ts.HashAlgorithm, signature), ts.HashedMessage) {
		return time.Time{}, errors.New("it is about another signature")
	}
	if !a.valid.holds(ts.Time) {
		return time.Time{}, fmt.Errorf("of %s; the authority counts %s", ts.Time.UTC().Format(time.RFC3339), a.valid)
	}
	return ts.Time, a.stamper(ts)
}

// stamper checks that the authority signed a time stamp.
func (a authority) stamper(ts *timestamp.Timestamp) error {
	p7, err := pkcs7.Parse(ts.RawToken)
	if err != nil {
		return err
	}
	if len(p7.Certificates) == 0 && a.leaf != nil {
		p7.Certificates = []*x509.Certificate{a.leaf}
	}
	if err := p7.Verify(); err != nil {
		return err
	}
	signer := p7.GetOnlySigner()
	if signer == nil || a.leaf != nil && !a.leaf.Equal(signer) {
		return errors.New("it is not by the authority's certificate")
	}
	if !stampsOnly(signer) {
		return errors.New("the certificate may do more than state times")
	}
	a.intermediates = append(slices.Clone(a.intermediates), p7.Certificates...)
	chains, err := a.verify(signer, ts.Time, x509.ExtKeyUsageTimeStamping)
	if err != nil {
		return err
	}
	for _, chain := range chains {
		if !slices.ContainsFunc(chain[1:max(len(chain)-1, 1)], func(c *x509.Certificate) bool {
			return len(c.ExtKeyUsage) > 0 && !slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageTimeStamping) && !slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageAny)
		}) {
			return nil
		}
	}
	return errors.New("an intermediate certificate may not state times")
}

// stampsOnly reports whether a certificate is for time stamps alone, stated as critical
// (RFC 3161 §2.3).
func stampsOnly(c *x509.Certificate) bool {
	extKeyUsage := asn1.ObjectIdentifier{2, 5, 29, 37}
	for _, e := range c.Extensions {
		if e.Id.Equal(extKeyUsage) {
			return e.Critical && len(c.ExtKeyUsage) == 1 && c.ExtKeyUsage[0] == x509.ExtKeyUsageTimeStamping && len(c.UnknownExtKeyUsage) == 0
		}
	}
	return false
}
