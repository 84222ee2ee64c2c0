package sign

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Limits of certificates.
const (
	// MaxCertificateFile bounds a file of certificates, in bytes.
	MaxCertificateFile = 1 << 20
	maxCertificate     = 16 << 10 // bytes of one
	maxCertificates    = 512      // in a file
	maxFolderChain     = 8        // in a signature
)

// FolderTrust states whose signatures over a folder are accepted: those by a key, or those
// by a certificate that leads to a root.
type FolderTrust struct {
	Keys        []*PublicKey
	Authorities []FolderAuthority
	Now         time.Time // at which all certificates must be valid
}

// FolderAuthority lists roots and whom they certify. An identity is an alternative name or
// the subject that the signer's certificate must state; without identities and pattern any
// counts.
type FolderAuthority struct {
	Roots      []*x509.Certificate
	Identities []string
	Pattern    string // regular expression from ^ to $ for an identity
}

// LoadCertificates reads certificates from PEM, in the order of the file.
func LoadCertificates(data []byte) (list []*x509.Certificate, err error) {
	if len(data) > MaxCertificateFile {
		return nil, fmt.Errorf("certificates: got %d bytes, want at most %d", len(data), MaxCertificateFile)
	}
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("certificates: PEM block: got %q, want CERTIFICATE", clip(block.Type))
		}
		if list, err = appendCertificate(list, block.Bytes, maxCertificates); err != nil {
			return nil, err
		}
	}
	if len(list) == 0 {
		return nil, errors.New("certificates: no PEM block found")
	}
	return list, nil
}

// appendCertificate parses a certificate and appends it to a list of at most limit.
func appendCertificate(list []*x509.Certificate, der []byte, limit int) ([]*x509.Certificate, error) {
	if len(list) == limit {
		return nil, fmt.Errorf("certificates: more than %d", limit)
	}
	if len(der) > maxCertificate {
		return nil, fmt.Errorf("certificate %d: got %d bytes, want at most %d", len(list)+1, len(der), maxCertificate)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("certificate %d: %w", len(list)+1, err)
	}
	return append(list, c), nil
}

// certificateList is the JSON form of a chain (sigstore protobuf-specs, X509CertificateChain).
type certificateList struct {
	Certificates []rawCertificate `json:"certificates"`
}

type rawCertificate struct {
	RawBytes []byte `json:"rawBytes"`
}

// parseChain reads the chain of a bundle.
func parseChain(data []byte) (chain []*x509.Certificate, err error) {
	var l certificateList
	if err := strictJSON(data, &l); err != nil {
		return nil, fmt.Errorf("certificate chain: %w", err)
	}
	for _, one := range l.Certificates {
		if chain, err = appendCertificate(chain, one.RawBytes, maxFolderChain); err != nil {
			return nil, err
		}
	}
	if len(chain) == 0 {
		return nil, errors.New("certificate chain: no certificates")
	}
	return chain, nil
}

// checkChain verifies a chain without a root: each certificate is issued by the
// next one, and the first may sign and is valid now.
func checkChain(chain []*x509.Certificate, now time.Time) error {
	if len(chain) > maxFolderChain {
		return fmt.Errorf("certificate chain: got %d certificates, want at most %d", len(chain), maxFolderChain)
	}
	for i, issuer := range chain[1:] {
		if c := chain[i]; !bytes.Equal(c.RawIssuer, issuer.RawSubject) || c.CheckSignatureFrom(issuer) != nil {
			return fmt.Errorf("certificate chain out of order: certificate %d (%s) is not issued by the next one (%s): want the signer's certificate first, then each issuer",
				i+1, named(c), named(issuer))
		}
	}
	leaf := chain[0]
	signs, code := leaf.KeyUsage&x509.KeyUsageDigitalSignature != 0, slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageCodeSigning)
	switch extended := len(leaf.ExtKeyUsage)+len(leaf.UnknownExtKeyUsage) > 0; {
	case !signs && (leaf.KeyUsage != 0 || !code):
		return fmt.Errorf("certificate of %s: key usage without digital signature", named(leaf))
	case extended && !code && !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageAny):
		return fmt.Errorf("certificate of %s: extended key usage without code signing", named(leaf))
	}
	return checkValid(leaf, now)
}

// checkValid reports whether a certificate is valid now.
func checkValid(c *x509.Certificate, now time.Time) error {
	if now.Before(c.NotBefore) || now.After(c.NotAfter) {
		return fmt.Errorf("certificate of %s: valid from %s to %s, but this machine's time is %s", named(c), stamp(c.NotBefore), stamp(c.NotAfter), stamp(now))
	}
	return nil
}

// stamp formats a time for a message.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// named returns the subject of a certificate for a message.
func named(c *x509.Certificate) string { return fmt.Sprintf("%q", clip(c.Subject.String())) }

// accepts verifies the chain of a signature and the signature of its first certificate.
func (t FolderTrust) accepts(chain []*x509.Certificate, o *opened) error {
	leaf := chain[0]
	if len(t.Authorities) == 0 {
		return fmt.Errorf("signed by the certificate of %s, issued by %q: want roots of certificates to verify it", named(leaf), clip(leaf.Issuer.String()))
	}
	if err := checkChain(chain, t.Now); err != nil {
		return err
	}
	var refusals []error
	for _, a := range t.Authorities {
		err := a.certifies(chain, t.Now)
		if err == nil {
			return verifyCertified(leaf, o.message, o.signature)
		}
		refusals = append(refusals, err)
	}
	return errors.Join(refusals...)
}

// certifies verifies that a chain leads to a root of the authority and states an identity
// that it accepts.
func (a FolderAuthority) certifies(chain []*x509.Certificate, now time.Time) error {
	leaf := chain[0]
	opt := x509.VerifyOptions{Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}}
	for _, c := range a.Roots {
		opt.Roots.AddCert(c)
	}
	for _, c := range chain[1:] {
		opt.Intermediates.AddCert(c)
	}
	if _, err := leaf.Verify(opt); errors.As(err, &x509.UnknownAuthorityError{}) {
		return fmt.Errorf("certificate of %s: its chain leads to none of %d trusted roots: %w", named(leaf), len(a.Roots), err)
	} else if invalid := (x509.CertificateInvalidError{}); errors.As(err, &invalid) {
		return fmt.Errorf("certificate of %s: %w", named(invalid.Cert), err)
	} else if err != nil {
		return fmt.Errorf("certificate of %s: %w", named(leaf), err)
	}
	pattern, err := compileSubject(a.Pattern)
	if err != nil {
		return err
	}
	accepted := func(name string) bool {
		return slices.Contains(a.Identities, name) || pattern != nil && pattern.MatchString(name)
	}
	if (len(a.Identities) > 0 || pattern != nil) && !slices.ContainsFunc(stated(leaf), accepted) {
		want := slices.Clone(a.Identities)
		if pattern != nil {
			want = append(want, a.Pattern)
		}
		return fmt.Errorf("certificate of %s: identity: got %q, want one of %q", named(leaf), stated(leaf), want)
	}
	return nil
}

// Check reports whether the authority has a root, an identity or a pattern, and a valid
// pattern.
func (a FolderAuthority) Check() error {
	switch {
	case len(a.Roots) == 0:
		return errors.New("no certificates")
	case len(a.Identities) == 0 && a.Pattern == "":
		return errors.New("no identities and no identity_pattern: every certificate below the roots would sign")
	}
	_, err := compileSubject(a.Pattern)
	return err
}

// stated returns the names that a certificate states.
func stated(c *x509.Certificate) []string {
	names := slices.Concat([]string{c.Subject.String()}, c.EmailAddresses, c.DNSNames)
	for _, u := range c.URIs {
		names = append(names, u.String())
	}
	return names
}

// verifyCertified verifies a signature by the key of a certificate: ECDSA over a NIST curve,
// with the hash of its size.
func verifyCertified(c *x509.Certificate, message, signature []byte) error {
	key, ok := c.PublicKey.(*ecdsa.PublicKey)
	if !ok {
		return fmt.Errorf("certificate of %s: key: got %T, want ECDSA", named(c), c.PublicKey)
	}
	var hash crypto.Hash
	switch key.Curve {
	case elliptic.P256():
		hash = crypto.SHA256
	case elliptic.P384():
		hash = crypto.SHA384
	case elliptic.P521():
		hash = crypto.SHA512
	default:
		return fmt.Errorf("certificate of %s: curve %s: want P-256, P-384 or P-521", named(c), key.Curve.Params().Name)
	}
	h := hash.New()
	h.Write(message)
	if !ecdsa.VerifyASN1(key, h.Sum(nil), signature) {
		return fmt.Errorf("%w: the certificate of %s does not verify it", errSignature, named(c))
	}
	return nil
}
