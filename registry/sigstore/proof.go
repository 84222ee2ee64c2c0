package sigstore

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/note"
)

// verify checks the proofs of an entry that are present; an entry has at least one.
func (e *entry) verify(l logKey) error {
	if len(e.promise) > 0 {
		if err := e.promised(l); err != nil {
			return err
		}
	}
	if e.proof == nil {
		return nil
	}
	p := e.proof
	leaf := rfc6962.DefaultHasher.HashLeaf(e.body)
	if err := proof.VerifyInclusion(rfc6962.DefaultHasher, p.index, p.size, leaf, p.hashes, p.root); err != nil {
		return fault(CheckInclusion, "entry %d: %v", e.index, err)
	}
	return p.checkpointed(l)
}

// promised checks the signed entry timestamp: the log's signature over the entry with its
// time, as canonical JSON (RFC 8785).
func (e *entry) promised(l logKey) error {
	when := time.Unix(e.time, 0)
	if !l.valid.holds(when) {
		return fault(CheckPromise, "the log's key counts %s, the entry is of %s", l.valid, when.UTC().Format(time.RFC3339))
	}
	payload, err := json.Marshal(struct { // in the order of the names
		Body  []byte `json:"body"`
		Time  int64  `json:"integratedTime"`
		LogID string `json:"logID"`
		Index int64  `json:"logIndex"`
	}{e.body, e.time, hex.EncodeToString([]byte(e.logID)), e.index})
	if err != nil {
		return fault(CheckPromise, "%v", err)
	}
	if !verifyLog(l.key, payload, e.promise) {
		return fault(CheckPromise, "entry %d: not signed by the log", e.index)
	}
	return nil
}

// withTree reports whether the origin of a checkpoint is one of Rekor v1: the host and the
// tree's number.
func withTree(origin string) bool {
	host, number, _ := strings.Cut(origin, " - ")
	return host != "" && !strings.ContainsAny(host, " \t\f\r") && number != "" && strings.Trim(number, "0123456789") == ""
}

// checkpointed checks that the log signed the root of the tree. Logs of Rekor v2 name their
// host as origin; with v1 the key alone decides.
func (p *inclusion) checkpointed(l logKey) error {
	n, err := note.Open([]byte(p.checkpoint), noteKeys{l.key})
	if err != nil {
		return fault(CheckCheckpoint, "%v", err)
	}
	lines := strings.Split(n.Text, "\n")
	if len(lines) < 4 { // origin, size, root, and the end of the last line
		return fault(CheckCheckpoint, "got %d lines, want 3", len(lines)-1)
	}
	size, err := strconv.ParseUint(lines[1], 10, 64)
	root, err2 := base64.StdEncoding.DecodeString(lines[2])
	switch {
	case err != nil || err2 != nil:
		return fault(CheckCheckpoint, "invalid size %q or root %q", clip(lines[1]), clip(lines[2]))
	case !withTree(lines[0]) && (l.host == "" || lines[0] != l.host):
		return fault(CheckCheckpoint, "it is of %q, the trusted root names the log %q", clip(lines[0]), l.host)
	case size != p.size || !bytes.Equal(root, p.root):
		return fault(CheckCheckpoint, "it is of another tree: size %d and root %x, the proof has %d and %x", size, root, p.size, p.root)
	}
	return nil
}

// noteKeys is the key of a log as note.Verifiers, under every name.
type noteKeys struct{ key crypto.PublicKey }

// Verifier returns the key under a name if its hash is the given one.
func (k noteKeys) Verifier(name string, hash uint32) (note.Verifier, error) {
	if own, ok := noteHash(k.key, name); !ok || own != hash {
		return nil, &note.UnknownVerifierError{Name: name, KeyHash: hash}
	}
	return noteKey{k, name, hash}, nil
}

// noteKey is a noteKeys under one name.
type noteKey struct {
	noteKeys
	name string
	hash uint32
}

// Name returns the name.
func (k noteKey) Name() string { return k.name }

// KeyHash returns the hash of the name and the key.
func (k noteKey) KeyHash() uint32 { return k.hash }

// Verify reports whether the key signed a note.
func (k noteKey) Verify(message, sig []byte) bool { return verifyLog(k.key, message, sig) }

// noteHash returns the number by which signatures of notes name a key: C2SP's; for
// ECDSA the beginning of the key's hash.
func noteHash(key crypto.PublicKey, name string) (uint32, bool) {
	var data []byte
	switch k := key.(type) {
	case ed25519.PublicKey:
		data = fmt.Appendf(nil, "%s\n\x01%s", name, []byte(k))
	case *ecdsa.PublicKey, *rsa.PublicKey:
		der, err := x509.MarshalPKIXPublicKey(key)
		if err != nil {
			return 0, false
		}
		data = der
		if _, ok := key.(*rsa.PublicKey); ok {
			data = fmt.Appendf(nil, "%s\n\xffPKIX-RSA-PKCS#1v1.5%s", name, der)
		}
	default:
		return 0, false
	}
	return binary.BigEndian.Uint32(sum(crypto.SHA256, data)), true
}
