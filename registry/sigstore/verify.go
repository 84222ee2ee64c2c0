package sigstore

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"slices"
	"time"
)

// Verified holds the facts that a bundle proves.
type Verified struct {
	Identity
	Times []time.Time // at which a log or an authority saw the signature, in ascending order
}

// Verify verifies a bundle with a certificate: a log of the root holds an entry about this
// signature, at least one log or authority of the root states when it was made, the
// certificate chains to an authority of the root at each of these times, a log of
// certificates of the root holds it, and its key signed. The error is a [*Fault].
//
// The signature of a message is verified over the digest that the bundle states: the
// caller compares [Bundle.Digest] with the message.
func (b *Bundle) Verify(r *Root) (Verified, error) {
	id, err := b.Claim()
	if err != nil {
		return Verified{}, err
	}
	logs, times, err := b.logged(r, b.leaf.Raw)
	if err != nil {
		return Verified{}, err
	}
	stamped, rejected := b.stamped(r)
	times = append(times, stamped...)
	if len(times) == 0 {
		return Verified{}, fault(CheckTime, "no log and no authority of the trusted root states when it was signed%s", rejected)
	}
	for _, l := range logs {
		if !slices.ContainsFunc(times, l.valid.holds) {
			return Verified{}, fault(CheckLogEntry, "the log's key counts %s, the signature is of %s", l.valid, times[0].UTC().Format(time.RFC3339))
		}
	}
	var chains [][]*x509.Certificate
	for _, t := range times {
		more, err := b.chains(r, t)
		if err != nil {
			return Verified{}, err
		}
		chains = append(chains, more...)
	}
	if err := b.transparent(r, chains); err != nil {
		return Verified{}, err
	}
	if err := b.signed(b.leaf.PublicKey); err != nil {
		return Verified{}, err
	}
	slices.SortFunc(times, time.Time.Compare)
	return Verified{id, times}, nil
}

// VerifyKey verifies a bundle by a public key. With a root, a log of it must hold an entry
// about this signature. The error is a [*Fault].
func (b *Bundle) VerifyKey(key crypto.PublicKey, r *Root) error {
	if b.leaf != nil {
		return fault(CheckIdentity, "signed with a certificate, not with a key")
	}
	if r != nil {
		der, err := x509.MarshalPKIXPublicKey(key)
		if err != nil {
			return fault(CheckSignature, "%v", err)
		}
		if _, _, err := b.logged(r, der); err != nil {
			return err
		}
	}
	return b.signed(key)
}

// chains returns the chains from the certificate to the authorities of the root that count
// at time t.
func (b *Bundle) chains(r *Root, t time.Time) ([][]*x509.Certificate, error) {
	leaf := *b.leaf
	leaf.UnhandledCriticalExtensions = slices.DeleteFunc(slices.Clone(leaf.UnhandledCriticalExtensions), sanOID.Equal) // user names: read by subject
	var found [][]*x509.Certificate
	var why error
	for _, a := range r.authorities {
		if !a.valid.holds(t) {
			why = fault(CheckCertificate, "at %s: the authority counts %s", t.UTC().Format(time.RFC3339), a.valid)
			continue
		}
		chains, err := a.verify(&leaf, t, x509.ExtKeyUsageCodeSigning)
		if err != nil {
			why = fault(CheckCertificate, "at %s: %v", t.UTC().Format(time.RFC3339), err)
			continue
		}
		found = append(found, chains...)
	}
	switch {
	case len(found) > 0:
		return found, nil
	case why == nil:
		why = fault(CheckCertificate, "the trusted root names no certificate authority")
	}
	return nil, why
}

// verify returns the chains from a certificate to the authority at time t.
func (a authority) verify(leaf *x509.Certificate, t time.Time, usage x509.ExtKeyUsage) ([][]*x509.Certificate, error) {
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	roots.AddCert(a.root)
	for _, c := range a.intermediates {
		between.AddCert(c)
	}
	return leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: t, KeyUsages: []x509.ExtKeyUsage{usage}})
}

// signed verifies the signature with a key.
func (b *Bundle) signed(key crypto.PublicKey) error {
	for _, hash := range signing(key) {
		var signed []byte
		switch {
		case b.Envelope != nil:
			signed = sum(hash, b.Envelope.message())
		case b.Digest.Hash == hash:
			signed = b.Digest.Sum
		default:
			continue
		}
		if verifySum(key, hash, signed, b.signature) {
			return nil
		}
	}
	if k, ok := key.(ed25519.PublicKey); ok && b.Envelope != nil && ed25519.Verify(k, b.Envelope.message(), b.signature) {
		return nil
	}
	return fault(CheckSignature, "it is not by the key of the certificate over this content")
}

// signing returns the hashes with which a key may sign: its usual one first. Older clients
// used SHA-256 with every curve.
func signing(key crypto.PublicKey) []crypto.Hash {
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		switch k.Params().BitSize {
		case 256:
			return []crypto.Hash{crypto.SHA256}
		case 384:
			return []crypto.Hash{crypto.SHA384, crypto.SHA256}
		case 521:
			return []crypto.Hash{crypto.SHA512, crypto.SHA256}
		}
	case *rsa.PublicKey:
		if k.Size() >= 2048/8 {
			return []crypto.Hash{crypto.SHA256}
		}
	case ed25519.PublicKey:
		return []crypto.Hash{crypto.SHA512} // Ed25519ph
	}
	return nil
}

// verifySum reports whether sig signs a hash by key.
func verifySum(key crypto.PublicKey, hash crypto.Hash, sum, sig []byte) bool {
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(k, sum, sig)
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(k, hash, sum, sig) == nil
	case ed25519.PublicKey:
		return ed25519.VerifyWithOptions(k, sum, sig, &ed25519.Options{Hash: hash}) == nil
	}
	return false
}

// verifyLog reports whether the key of a log signed a message.
func verifyLog(key crypto.PublicKey, message, sig []byte) bool {
	if k, ok := key.(ed25519.PublicKey); ok {
		return ed25519.Verify(k, message, sig)
	}
	usual := signing(key)
	return len(usual) > 0 && verifySum(key, usual[0], sum(usual[0], message), sig)
}

// sum hashes data.
func sum(h crypto.Hash, data []byte) []byte {
	w := h.New()
	w.Write(data)
	return w.Sum(nil)
}
