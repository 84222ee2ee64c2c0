package sigstoretest

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/digitorus/timestamp"
	"github.com/transparency-dev/merkle/rfc6962"
)

// Signing describes a signature: content, signer, time, and the parts that are wrong. Only Subject,
// Issuer, At, and Message or Payload are necessary.
type Signing struct {
	Subject    string // address, URI, or user name "!name"
	Issuer     string
	Extensions map[int]string // by number below Fulcio's arc
	At         time.Time
	NotBefore  time.Time // of the certificate. Zero: a minute before At
	NotAfter   time.Time // Zero: nine minutes after At

	Message     []byte // signed as a message, unless Payload is set
	Payload     []byte // signed in a DSSE envelope
	PayloadType string // "": in-toto

	Version string        // of the bundle. "": 0.3
	Key     crypto.Signer // of the certificate. Nil: a new P-256
	Hash    crypto.Hash   // Zero: SHA-256
	Kind    string        // of the entry: "hashedrekord 0.0.1", "dsse 0.0.1", "intoto 0.0.2", "hashedrekord 0.0.2", "dsse 0.0.2". "": the first that suits
	Stamp   bool          // by the authority for time stamps; always with version 2 entries

	// Parts left out.
	NoEntry, NoPromise, NoProof, NoTimestamps bool // NoTimestamps: the certificate is in no log
	WideStamp                                 bool // by a certificate that may also sign code; the root must not name another one
	LooseStamp                                bool // by a certificate that states its one use as not critical; likewise
	BareStamp                                 bool // without the certificate, which the root names
	// Parts by a key that the root does not name.
	ForeignAuthority, ForeignCertificateLog, ForeignPromise, ForeignCheckpoint, ForeignStamp, ForeignSignature bool
	// Parts about something else.
	OtherLeaf, OtherTree, OtherOrigin, OtherEntry, OtherStamp, OtherPrecertificate, OtherSignature, OtherSize bool
	PublicKey                                                                                                 bool // name a key, not a certificate

	StampAt    time.Time              // Zero: At
	StampHash  crypto.Hash            // Zero: SHA-256
	Timestamps int                    // of the log of certificates. Zero: 1
	Edit       func(b map[string]any) // of the bundle's JSON
}

// parts are those of a bundle.
type parts struct {
	leaf      *x509.Certificate
	signer    []byte // PEM of the certificate or the key
	der       []byte
	signature []byte
	digest    []byte // of the signed bytes
	hash      crypto.Hash
}

// Bundle returns a signature as a bundle.
func (w *World) Bundle(s Signing) []byte {
	w.t.Helper()
	p := w.sign(&s)
	bundle := m{"mediaType": mediaType(s.Version)}
	material := m{}
	switch {
	case s.PublicKey:
		material["publicKey"] = m{"hint": base64.StdEncoding.EncodeToString(sum256(p.der))}
	case s.Version == "0.1" || s.Version == "0.2":
		material["x509CertificateChain"] = m{"certificates": []any{m{"rawBytes": p.leaf.Raw}, m{"rawBytes": w.issuing.Raw}, m{"rawBytes": w.root.Raw}}}
	default:
		material["certificate"] = m{"rawBytes": p.leaf.Raw}
	}
	if !s.NoEntry {
		material["tlogEntries"] = []any{w.entry(s, p)}
	}
	if s.Stamp {
		material["timestampVerificationData"] = m{"rfc3161Timestamps": []any{m{"signedTimestamp": w.stamp(s, p)}}}
	}
	bundle["verificationMaterial"] = material
	if s.Payload != nil {
		bundle["dsseEnvelope"] = m{"payload": s.Payload, "payloadType": s.PayloadType, "signatures": []any{m{"sig": p.signature}}}
	} else {
		bundle["messageSignature"] = m{"messageDigest": m{"algorithm": protoHash(p.hash), "digest": p.digest}, "signature": p.signature}
	}
	if s.Edit == nil {
		return edited(w, bundle, nil)
	}
	return edited(w, bundle, []func(map[string]any){s.Edit})
}

// sign sets the defaults of s, certifies the key and signs.
func (w *World) sign(s *Signing) parts {
	if s.Payload != nil && s.PayloadType == "" {
		s.PayloadType = "application/vnd.in-toto+json"
	}
	if s.Kind == "" {
		if s.Kind = "hashedrekord 0.0.1"; s.Payload != nil {
			s.Kind = "dsse 0.0.1"
		}
	}
	if s.Kind == "hashedrekord 0.0.2" || s.Kind == "dsse 0.0.2" {
		s.Stamp, s.NoPromise = true, true
	}
	if s.Key == nil {
		s.Key = w.key()
	}
	p := parts{hash: s.Hash}
	if p.hash == 0 {
		p.hash = crypto.SHA256
	}
	if s.PublicKey {
		p.der, _ = x509.MarshalPKIXPublicKey(s.Key.Public())
		p.signer = pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: p.der})
	} else {
		p.leaf = w.certify(*s)
		p.der = p.leaf.Raw
		p.signer = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.der})
	}
	message := s.message()
	p.digest = sum(p.hash, message)
	by := s.Key
	if s.ForeignSignature {
		by = w.key()
	}
	p.signature = w.raw(by, p.hash, message)
	return p
}

// message returns the signed bytes.
func (s *Signing) message() []byte {
	if s.Payload == nil {
		return s.Message
	}
	return fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(s.PayloadType), s.PayloadType, len(s.Payload), s.Payload)
}

// raw signs a message as logs and clients do.
func (w *World) raw(key crypto.Signer, hash crypto.Hash, message []byte) []byte {
	if _, ok := key.Public().(ed25519.PublicKey); ok {
		if hash == crypto.SHA512 { // Ed25519ph
			sig, err := key.Sign(nil, sum(hash, message), &ed25519.Options{Hash: hash})
			w.check(err)
			return sig
		}
		sig, err := key.Sign(nil, message, crypto.Hash(0))
		w.check(err)
		return sig
	}
	sig, err := key.Sign(rand.Reader, sum(hash, message), hash)
	w.check(err)
	return sig
}

// certify returns the certificate of the signer's key, first without and then with the
// timestamp of the log of certificates.
func (w *World) certify(s Signing) *x509.Certificate {
	c := &x509.Certificate{
		NotBefore: s.NotBefore, NotAfter: s.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
	}
	if c.NotBefore.IsZero() {
		c.NotBefore = s.At.Add(-time.Minute)
	}
	if c.NotAfter.IsZero() {
		c.NotAfter = s.At.Add(9 * time.Minute)
	}
	switch {
	case strings.HasPrefix(s.Subject, "!"):
		c.ExtraExtensions = append(c.ExtraExtensions, w.otherName(s.Subject[1:]))
	case strings.Contains(s.Subject, "://"):
		u, err := url.Parse(s.Subject)
		w.check(err)
		c.URIs = []*url.URL{u}
	case s.Subject != "":
		c.EmailAddresses = []string{s.Subject}
	}
	if s.Issuer != "" {
		c.ExtraExtensions = append(c.ExtraExtensions, pkix.Extension{Id: arc(1), Value: []byte(s.Issuer)}, w.text(8, s.Issuer))
	}
	for _, number := range slices.Sorted(maps.Keys(s.Extensions)) {
		if value := s.Extensions[number]; number < 8 {
			c.ExtraExtensions = append(c.ExtraExtensions, pkix.Extension{Id: arc(number), Value: []byte(value)})
		} else {
			c.ExtraExtensions = append(c.ExtraExtensions, w.text(number, value))
		}
	}
	by, issuing := w.issuer, w.issuing
	if s.ForeignAuthority {
		by = w.key()
		own := *issuing
		own.PublicKey = by.Public()
		issuing = &own
	}
	before := w.certificate(c, issuing, s.Key.Public(), by)
	if s.NoTimestamps {
		return before
	}
	c.SerialNumber = before.SerialNumber
	tbs := before.RawTBSCertificate
	if s.OtherPrecertificate {
		tbs = w.issuing.RawTBSCertificate
	}
	c.ExtraExtensions = append(c.ExtraExtensions, w.sct(s, tbs))
	return w.certificate(c, issuing, s.Key.Public(), by)
}

// sct returns the extension with a signed certificate timestamp (RFC 6962 §3.2, §3.3).
func (w *World) sct(s Signing, tbs []byte) pkix.Extension {
	key := w.certificates
	if s.ForeignCertificateLog {
		key = w.key()
	}
	var message []byte
	message = append(message, 0, 0)
	message = binary.BigEndian.AppendUint64(message, uint64(s.At.UnixMilli()))
	message = append(message, 0, 1)
	message = append(message, sum256(w.issuing.RawSubjectPublicKeyInfo)...)
	message = append(message, byte(len(tbs)>>16), byte(len(tbs)>>8), byte(len(tbs)))
	message = append(message, tbs...)
	message = append(message, 0, 0)
	sig := w.raw(key, crypto.SHA256, message)
	one := append([]byte{0}, w.logID(w.certificates)...)
	one = binary.BigEndian.AppendUint64(one, uint64(s.At.UnixMilli()))
	one = append(one, 0, 0, 4, 3)
	one = append(binary.BigEndian.AppendUint16(one, uint16(len(sig))), sig...)
	list := append(binary.BigEndian.AppendUint16(nil, uint16(len(one))), one...)
	list = bytes.Repeat(list, max(s.Timestamps, 1))
	list = append(binary.BigEndian.AppendUint16(nil, uint16(len(list))), list...)
	value, err := asn1.Marshal(list)
	w.check(err)
	return pkix.Extension{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 11129, 2, 4, 2}, Value: value}
}

// arc returns an identifier below Fulcio's.
func arc(number int) asn1.ObjectIdentifier {
	return asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, number}
}

// text returns an extension that holds a UTF8String.
func (w *World) text(number int, value string) pkix.Extension {
	der, err := asn1.MarshalWithParams(value, "utf8")
	w.check(err)
	return pkix.Extension{Id: arc(number), Value: der}
}

// otherName returns alternative names with a user name.
func (w *World) otherName(name string) pkix.Extension {
	type other struct {
		ID    asn1.ObjectIdentifier
		Value string `asn1:"utf8,explicit,tag:0"`
	}
	one, err := asn1.MarshalWithParams(other{arc(7), name}, "tag:0")
	w.check(err)
	list, err := asn1.Marshal([]asn1.RawValue{{FullBytes: one}})
	w.check(err)
	return pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 17}, Critical: true, Value: list}
}

// usageExtension returns a critical extension: for time stamps alone.
func usageExtension() (pkix.Extension, error) {
	value, err := asn1.Marshal([]asn1.ObjectIdentifier{{1, 3, 6, 1, 5, 5, 7, 3, 8}})
	return pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 37}, Critical: true, Value: value}, err
}

// entry returns the entry of a log with its proofs.
func (w *World) entry(s Signing, p parts) m {
	key, host, origin := w.log, LogHost, LogHost+" - 1193050959916656506"
	kind, version, _ := strings.Cut(s.Kind, " ")
	v2 := version == "0.0.2" && kind != "intoto"
	if v2 {
		key, host, origin = w.tiles, TilesHost, TilesHost
	}
	if s.OtherOrigin {
		origin = "elsewhere.test"
	}
	if s.OtherEntry {
		other := Signing{Subject: s.Subject, Issuer: s.Issuer, At: s.At, Payload: s.Payload, Message: []byte("other"), Kind: s.Kind}
		if s.Payload != nil {
			other.Payload = []byte(`{"other":1}`)
		}
		p = w.sign(&other)
	}
	if s.OtherSignature { // of the same content by the same key
		p.signature = w.raw(s.Key, p.hash, s.message())
	}
	body, err := json.Marshal(m{"apiVersion": version, "kind": kind, "spec": spec(s, p)})
	w.check(err)
	e := m{
		"logIndex": "4102", "logId": m{"keyId": w.logID(key)}, "kindVersion": m{"kind": kind, "version": version},
		"integratedTime": fmt.Sprint(s.At.Unix()), "canonicalizedBody": body,
	}
	if v2 {
		delete(e, "integratedTime")
		e["logIndex"] = "2"
	}
	if !s.NoPromise {
		by := key
		if s.ForeignPromise {
			by = w.key()
		}
		payload := fmt.Appendf(nil, `{"body":%q,"integratedTime":%d,"logID":%q,"logIndex":4102}`,
			base64.StdEncoding.EncodeToString(body), s.At.Unix(), hex.EncodeToString(w.logID(key)))
		e["inclusionPromise"] = m{"signedEntryTimestamp": w.raw(by, crypto.SHA256, payload)}
	}
	if !s.NoProof {
		e["inclusionProof"] = w.proof(s, key, host, origin, body)
	}
	return e
}

// proof returns the proof that a body is the third of four leaves.
func (w *World) proof(s Signing, key crypto.Signer, host, origin string, body []byte) m {
	h := rfc6962.DefaultHasher
	own := h.HashLeaf(body)
	if s.OtherLeaf {
		own = h.HashLeaf([]byte("another leaf"))
	}
	last, left := h.HashLeaf([]byte("leaf 3")), h.HashChildren(h.HashLeaf([]byte("leaf 0")), h.HashLeaf([]byte("leaf 1")))
	top := h.HashChildren(left, h.HashChildren(own, last))
	signed := top
	if s.OtherTree {
		signed = h.HashLeaf([]byte("another tree"))
	}
	by := key
	if s.ForeignCheckpoint {
		by = w.key()
		if host == TilesHost {
			_, other, err := ed25519.GenerateKey(rand.Reader)
			w.check(err)
			by = other
		}
	}
	size := 4
	if s.OtherSize {
		size = 5
	}
	note := fmt.Sprintf("%s\n%d\n%s\n", origin, size, base64.StdEncoding.EncodeToString(signed))
	hint := w.logID(key)[:4]
	name := host
	if public, ok := key.Public().(ed25519.PublicKey); ok {
		if s.OtherOrigin {
			name = origin
		}
		hint = sum256(fmt.Appendf(nil, "%s\n\x01%s", name, []byte(public)))[:4]
	}
	sig := w.raw(by, crypto.SHA256, []byte(note))
	note += fmt.Sprintf("\n— %s %s\n", name, base64.StdEncoding.EncodeToString(append(hint, sig...)))
	return m{"logIndex": "2", "treeSize": "4", "rootHash": top, "hashes": []any{last, left}, "checkpoint": m{"envelope": note}}
}

// spec returns the content of an entry's body.
func spec(s Signing, p parts) m {
	signer2 := m{"keyDetails": details(s.Key.Public()), "x509Certificate": m{"rawBytes": p.der}}
	if s.PublicKey {
		signer2 = m{"keyDetails": details(s.Key.Public()), "publicKey": m{"rawBytes": p.der}}
	}
	hexed := func(data []byte) m { return m{"algorithm": "sha256", "value": hex.EncodeToString(sum256(data))} }
	switch s.Kind {
	case "dsse 0.0.1":
		envelope, _ := json.Marshal(m{"payload": s.Payload, "payloadType": s.PayloadType, "signatures": []any{m{"sig": p.signature}}})
		return m{"envelopeHash": hexed(envelope), "payloadHash": hexed(s.Payload), "signatures": []any{m{"signature": p.signature, "verifier": p.signer}}}
	case "intoto 0.0.2":
		return m{"content": m{
			"envelope": m{"payloadType": s.PayloadType, "signatures": []any{m{"publicKey": p.signer, "sig": []byte(base64.StdEncoding.EncodeToString(p.signature))}}},
			"hash":     hexed([]byte("envelope")), "payloadHash": hexed(s.Payload),
		}}
	case "hashedrekord 0.0.2":
		return m{"hashedRekordV002": m{"data": m{"algorithm": protoHash(p.hash), "digest": p.digest}, "signature": m{"content": p.signature, "verifier": signer2}}}
	case "dsse 0.0.2":
		return m{"dsseV002": m{"payloadHash": m{"algorithm": "SHA2_256", "digest": sum256(s.Payload)}, "signatures": []any{m{"content": p.signature, "verifier": signer2}}}}
	}
	return m{
		"data":      m{"hash": m{"algorithm": strings.ToLower(strings.ReplaceAll(p.hash.String(), "-", "")), "value": hex.EncodeToString(p.digest)}},
		"signature": m{"content": p.signature, "publicKey": m{"content": p.signer}},
	}
}

// stamp returns the answer of the authority for time stamps.
func (w *World) stamp(s Signing, p parts) []byte {
	if s.StampHash == 0 {
		s.StampHash = crypto.SHA256
	}
	return w.stamped(s, sum(s.StampHash, p.signature))
}

// stamped returns the answer about a hash.
func (w *World) stamped(s Signing, hashed []byte) []byte {
	at := s.StampAt
	if at.IsZero() {
		at = s.At
	}
	if s.OtherStamp {
		hashed = sum256([]byte("another signature"))
	}
	ts := timestamp.Timestamp{HashAlgorithm: s.StampHash, HashedMessage: hashed, Time: at, Policy: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 2}, AddTSACertificate: !s.BareStamp}
	key, leaf := w.stampKey, w.stampLeaf
	if s.WideStamp || s.LooseStamp {
		usage := []x509.ExtKeyUsage{x509.ExtKeyUsageTimeStamping}
		if s.WideStamp {
			usage = append(usage, x509.ExtKeyUsageCodeSigning)
		}
		leaf = w.certificate(&x509.Certificate{
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: usage,
			NotBefore: w.Start, NotAfter: w.Start.AddDate(10, 0, 0),
		}, w.stamping, w.stampKey.Public(), w.stamper)
	}
	if s.ForeignStamp {
		key = w.key()
	}
	data, err := ts.CreateResponseWithOpts(leaf, key, crypto.SHA256)
	w.check(err)
	return data
}

// mediaType returns the media type of a bundle.
func mediaType(version string) string {
	switch version {
	case "0.1", "0.2":
		return "application/vnd.dev.sigstore.bundle+json;version=" + version
	}
	return "application/vnd.dev.sigstore.bundle.v0.3+json"
}

// protoHash returns the name of a hash in protobuf.
func protoHash(h crypto.Hash) string { return "SHA2_" + strings.TrimPrefix(h.String(), "SHA-") }

// details returns the name of a kind of key in protobuf.
func details(key crypto.PublicKey) string {
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		return map[int]string{256: "PKIX_ECDSA_P256_SHA_256", 384: "PKIX_ECDSA_P384_SHA_384", 521: "PKIX_ECDSA_P521_SHA_512"}[k.Params().BitSize]
	case *rsa.PublicKey:
		return fmt.Sprintf("PKIX_RSA_PKCS1V15_%d_SHA256", k.Size()*8)
	}
	return "PKIX_ED25519_PH"
}

// sum hashes data.
func sum(h crypto.Hash, data []byte) []byte {
	w := h.New()
	w.Write(data)
	return w.Sum(nil)
}

// sum256 hashes data with SHA-256.
func sum256(data []byte) []byte {
	s := sha256.Sum256(data)
	return s[:]
}
