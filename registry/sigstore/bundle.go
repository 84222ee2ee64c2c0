package sigstore

import (
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"

	bundlepb "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	common "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
)

// Limits of a bundle.
const (
	MaxBundle  = 8 << 20 // bytes
	maxEntries = 32      // of logs
	maxStamps  = 32      // time stamps
	maxHashes  = 64      // of an inclusion proof
)

// bundleType is the beginning of the media types of bundles.
const bundleType = "application/vnd.dev.sigstore.bundle"

// Bundle is a signature with the proofs of its origin, not yet verified.
type Bundle struct {
	Envelope *Envelope // nil: a signature over a message
	Digest   Digest    // of the message, as the bundle states it

	leaf      *x509.Certificate // nil: a public key
	signature []byte
	entries   []entry
	stamps    [][]byte // responses of RFC 3161
}

// Envelope is the content of a DSSE envelope with one signature.
type Envelope struct {
	PayloadType string
	Payload     []byte
}

// Digest is a hash of a message.
type Digest struct {
	Hash crypto.Hash
	Sum  []byte
}

// entry is an entry of a log with its proofs.
type entry struct {
	index         int64
	logID         string
	kind, version string
	time          int64  // seconds since 1970; 0: the log states none
	promise       []byte // signed entry timestamp; empty: none
	body          []byte
	proof         *inclusion
}

// inclusion leads from an entry to the root of a tree.
type inclusion struct {
	index, size uint64
	root        []byte
	hashes      [][]byte
	checkpoint  string
}

// versionOf returns the minor version of a bundle's media type: 1 to 3.
func versionOf(mediaType string) (int, error) {
	for minor := 1; minor <= 3; minor++ {
		switch mediaType {
		case fmt.Sprintf("%s+json;version=0.%d", bundleType, minor), fmt.Sprintf("%s.v0.%d+json", bundleType, minor):
			return minor, nil
		}
	}
	return 0, fmt.Errorf("media type %q is not that of a bundle v0.1 to v0.3", clip(mediaType))
}

// Parse reads a bundle v0.1 to v0.3.
func Parse(data []byte) (*Bundle, error) {
	if len(data) > MaxBundle {
		return nil, fmt.Errorf("bundle: got %d bytes, want at most %d", len(data), MaxBundle)
	}
	var pb bundlepb.Bundle
	if err := decodeProto(data, &pb); err != nil {
		return nil, err
	}
	version, err := versionOf(pb.GetMediaType())
	if err != nil {
		return nil, err
	}
	b := &Bundle{}
	if err := b.content(&pb); err != nil {
		return nil, err
	}
	if err := b.material(pb.GetVerificationMaterial(), version); err != nil {
		return nil, err
	}
	return b, b.log(pb.GetVerificationMaterial(), version)
}

// content reads the signed content.
func (b *Bundle) content(pb *bundlepb.Bundle) error {
	if env := pb.GetDsseEnvelope(); env != nil {
		if n := len(env.GetSignatures()); n != 1 {
			return fmt.Errorf("%d signatures in one envelope, not 1", n)
		}
		b.Envelope = &Envelope{PayloadType: env.GetPayloadType(), Payload: env.GetPayload()}
		b.signature = env.GetSignatures()[0].GetSig()
	} else if msg := pb.GetMessageSignature(); msg != nil {
		b.signature = msg.GetSignature()
		hash, ok := hashes[msg.GetMessageDigest().GetAlgorithm()]
		if !ok || len(msg.GetMessageDigest().GetDigest()) != hash.Size() {
			return errors.New("message digest: want SHA-256, SHA-384 or SHA-512")
		}
		b.Digest = Digest{hash, msg.GetMessageDigest().GetDigest()}
	} else {
		return errors.New("neither a DSSE envelope nor a message signature")
	}
	if len(b.signature) == 0 {
		return errors.New("empty signature")
	}
	return nil
}

// hashes are the algorithms that sign messages.
var hashes = map[common.HashAlgorithm]crypto.Hash{
	common.HashAlgorithm_SHA2_256: crypto.SHA256, common.HashAlgorithm_SHA2_384: crypto.SHA384, common.HashAlgorithm_SHA2_512: crypto.SHA512,
}

// material reads who signed. Of a chain, permitted up to v0.2, only the first certificate
// is used: the others are those of the trusted root.
func (b *Bundle) material(m *bundlepb.VerificationMaterial, version int) error {
	var raw [][]byte
	switch c := m.GetContent().(type) {
	case *bundlepb.VerificationMaterial_PublicKey:
		return nil
	case *bundlepb.VerificationMaterial_Certificate:
		raw = append(raw, c.Certificate.GetRawBytes())
	case *bundlepb.VerificationMaterial_X509CertificateChain:
		if version >= 3 {
			return errors.New("a certificate chain, which a bundle v0.3 does not hold")
		}
		for _, one := range c.X509CertificateChain.GetCertificates() {
			raw = append(raw, one.GetRawBytes())
		}
	default:
		return errors.New("neither a public key nor a certificate")
	}
	return b.chain(raw)
}

// chain reads the first of the signer's certificates.
func (b *Bundle) chain(raw [][]byte) error {
	if len(raw) == 0 || len(raw) > maxChain {
		return fmt.Errorf("got %d certificates, want 1 to %d", len(raw), maxChain)
	}
	leaf, err := x509.ParseCertificate(raw[0])
	if err != nil {
		return fmt.Errorf("certificate: %w", err)
	}
	b.leaf = leaf
	return nil
}

// log reads the entries of logs and the time stamps.
func (b *Bundle) log(m *bundlepb.VerificationMaterial, version int) error {
	entries, stamps := m.GetTlogEntries(), m.GetTimestampVerificationData().GetRfc3161Timestamps()
	if len(entries) > maxEntries {
		return fmt.Errorf("got %d log entries, want at most %d", len(entries), maxEntries)
	}
	if len(stamps) > maxStamps {
		return fmt.Errorf("got %d time stamps, want at most %d", len(stamps), maxStamps)
	}
	for _, s := range stamps {
		b.stamps = append(b.stamps, s.GetSignedTimestamp())
	}
	for i, pb := range entries {
		e := entry{
			index: pb.GetLogIndex(), logID: string(pb.GetLogId().GetKeyId()), time: pb.GetIntegratedTime(),
			kind: pb.GetKindVersion().GetKind(), version: pb.GetKindVersion().GetVersion(),
			promise: pb.GetInclusionPromise().GetSignedEntryTimestamp(), body: pb.GetCanonicalizedBody(),
		}
		if len(e.body) == 0 || e.logID == "" || e.index < 0 || e.time < 0 {
			return fmt.Errorf("log entry %d: no body, log id, index or time", i)
		}
		if p := pb.GetInclusionProof(); p != nil {
			if p.GetLogIndex() < 0 || p.GetTreeSize() <= 0 || len(p.GetHashes()) > maxHashes {
				return fmt.Errorf("log entry %d: inclusion proof: index %d of %d with %d hashes", i, p.GetLogIndex(), p.GetTreeSize(), len(p.GetHashes()))
			}
			e.proof = &inclusion{uint64(p.GetLogIndex()), uint64(p.GetTreeSize()), p.GetRootHash(), p.GetHashes(), p.GetCheckpoint().GetEnvelope()}
		}
		switch {
		case version == 1 && len(e.promise) == 0:
			return fmt.Errorf("log entry %d: no signed entry timestamp, which v0.1 requires", i)
		case version > 1 && e.proof == nil:
			return fmt.Errorf("log entry %d: no inclusion proof, which v0.%d requires", i, version)
		}
		b.entries = append(b.entries, e)
	}
	return nil
}

// message returns the signed bytes of an envelope: DSSE's pre-authentication encoding.
func (e *Envelope) message() []byte {
	return fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(e.PayloadType), e.PayloadType, len(e.Payload), e.Payload)
}
