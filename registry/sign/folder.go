package sign

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sigstore/sigstore/pkg/cryptoutils"
)

// The format of OpenSSF Model Signing 1.0 (PyPI model-signing).
const (
	// FolderType is the predicate type of a signature over a folder.
	FolderType = "https://model_signing/signature/v1.0"
	// FolderSignature is the usual name of the signature's file.
	FolderSignature = "model.sig"
	// MaxFolderBundle bounds a signature over a folder, in bytes.
	MaxFolderBundle = 8 << 20
)

// FolderIgnored lists the names at the top of a folder that no signature covers.
func FolderIgnored() []string { return []string{".git", ".gitattributes", ".github", ".gitignore"} }

// FolderFile is one signed file.
type FolderFile struct {
	Name   string // slash separated, relative to the folder
	Digest string // SHA-256 in hex
}

// Folder lists the files that a signature over a folder covers.
type Folder struct {
	Name    string       // of the folder when it was signed; not verified
	Files   []FolderFile // sorted by path elements
	Ignored []string     // names that the signature leaves out
	KeyID   string       // of the key that verified it

	Chain []*x509.Certificate // of the signer, the signer's own first; nil: a key alone
}

// folderPredicate is the predicate of a statement about a folder.
type folderPredicate struct {
	Serialization folderSerialization `json:"serialization"`
	Resources     []folderResource    `json:"resources"`
}

type folderSerialization struct {
	Method        string   `json:"method"`
	Hash          string   `json:"hash_type"`
	AllowSymlinks bool     `json:"allow_symlinks"`
	Ignored       []string `json:"ignore_paths"`
}

type folderResource struct {
	Name      string `json:"name"`
	Algorithm string `json:"algorithm"`
	Digest    string `json:"digest"`
}

// SignFolder returns the signature over a folder's files in the form of OpenSSF Model
// Signing. The key must be P-256: the format has no Ed25519. A chain must be valid now, and
// begin with the certificate of the key.
func SignFolder(key *PrivateKey, f Folder, now time.Time) ([]byte, error) {
	if key.public.ecdsa == nil {
		return nil, errors.New("signing a folder: OpenSSF Model Signing has no Ed25519: got an Ed25519 key, want P-256")
	}
	if len(f.Files) == 0 {
		return nil, errors.New("signing a folder: no files")
	}
	if len(f.Chain) > 0 {
		err := checkChain(f.Chain, now)
		for i := 1; err == nil && i < len(f.Chain); i++ {
			err = checkValid(f.Chain[i], now)
		}
		if err != nil {
			return nil, fmt.Errorf("signing a folder: %w", err)
		}
		if !key.public.ecdsa.Equal(f.Chain[0].PublicKey) {
			return nil, fmt.Errorf("signing a folder: the first certificate, of %s, is not that of key %.12s", named(f.Chain[0]), key.public.KeyID())
		}
	}
	files := slices.Clone(f.Files)
	slices.SortFunc(files, compareElements)
	root, err := folderDigest(files)
	if err != nil {
		return nil, fmt.Errorf("signing a folder: %w", err)
	}
	predicate := folderPredicate{Serialization: folderSerialization{Method: "files", Hash: "sha256", Ignored: f.Ignored}}
	for _, one := range files {
		predicate.Resources = append(predicate.Resources, folderResource{one.Name, "sha256", one.Digest})
	}
	body, err := json.Marshal(predicate)
	if err != nil {
		return nil, err
	}
	payload, err := json.Marshal(statement{
		Type: statementType, Subject: []resource{{Name: f.Name, Digest: map[string]string{"sha256": root}}},
		PredicateType: FolderType, Predicate: body,
	})
	if err != nil {
		return nil, err
	}
	return sealFolder(key, f.Chain, payload)
}

// sealFolder returns the bundle of a payload in the form that model-signing reads: its
// hint is the digest of the PEM text, and the lists that it requires are present.
func sealFolder(key *PrivateKey, chain []*x509.Certificate, payload []byte) ([]byte, error) {
	sig, err := key.sign(pae(payloadType, payload))
	if err != nil {
		return nil, fmt.Errorf("signing: %w", err)
	}
	hint, err := folderHint(key.public)
	if err != nil {
		return nil, err
	}
	type m = map[string]any
	material := m{"publicKey": m{"hint": hint}, "tlogEntries": []any{}}
	if len(chain) > 0 {
		var l certificateList
		for _, c := range chain {
			l.Certificates = append(l.Certificates, rawCertificate{c.Raw})
		}
		material = m{"x509CertificateChain": l, "tlogEntries": []any{}}
	}
	return json.Marshal(m{
		"mediaType":            BundleMediaType,
		"verificationMaterial": material,
		"dsseEnvelope": m{
			"payload": base64.StdEncoding.EncodeToString(payload), "payloadType": payloadType,
			"signatures": []any{m{"sig": base64.StdEncoding.EncodeToString(sig), "keyid": ""}},
		},
	})
}

// folderHint returns the hex SHA-256 of a key's PEM text.
func folderHint(k *PublicKey) (string, error) {
	text, err := cryptoutils.MarshalPublicKeyToPEM(k.ecdsa)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), err
}

// OpenFolder verifies a signature over a folder and returns the files that it covers. The
// caller compares them with the folder.
//
// A signature may leave out only [FolderIgnored] and its own file: any other name that it
// ignores could hold unsigned weights. No time stamp proves when a certificate signed, so
// that its signatures are accepted while it is valid, no longer.
func OpenFolder(data []byte, trust FolderTrust) (Folder, error) {
	if len(data) > MaxFolderBundle {
		return Folder{}, fmt.Errorf("signature too large: got %d bytes, want at most %d", len(data), MaxFolderBundle)
	}
	o, chain, err := openFolder(data)
	if err != nil {
		return Folder{}, err
	}
	id, err := trust.signer(o, chain)
	if err != nil {
		return Folder{}, err
	}
	f, err := o.statement.folder()
	f.KeyID, f.Chain = id, chain
	return f, err
}

// openFolder parses a signature over a folder. model-signing writes chains of certificates
// into bundles v0.3, which have none elsewhere.
func openFolder(data []byte) (*opened, []*x509.Certificate, error) {
	var b bundle
	if err := strictJSON(data, &b); err != nil {
		return nil, nil, err
	}
	m := b.VerificationMaterial
	if m.CertChain == nil || m.Certificate != nil || m.PublicKey != nil {
		o, err := open(data)
		return o, nil, err
	}
	chain, err := parseChain(m.CertChain)
	if err != nil {
		return nil, nil, err
	}
	o := &opened{}
	payload, err := o.keyed(b)
	if err != nil {
		return nil, nil, err
	}
	return o, chain, o.state(payload)
}

// signer verifies a signature and returns the id of the key.
func (t FolderTrust) signer(o *opened, chain []*x509.Certificate) (string, error) {
	switch {
	case o.certified != nil:
		return "", errors.New("signed by a certificate of minutes: want a key, or a chain that leads to a root")
	case chain != nil:
		if err := t.accepts(chain, o); err != nil {
			return "", err
		}
		return keyID(chain[0].PublicKey)
	case len(t.Authorities) > 0 && len(t.Keys) == 0:
		return "", errors.New("signed by a key alone: want a certificate that leads to a trusted root")
	}
	at := slices.IndexFunc(t.Keys, func(k *PublicKey) bool { return k.verify(o.message, o.signature) == nil })
	if at < 0 {
		return "", fmt.Errorf("%w: none of %d keys verifies it", errSignature, len(t.Keys))
	}
	return t.Keys[at].KeyID(), nil
}

// folder returns the files that a statement about a folder covers.
func (s *statement) folder() (Folder, error) {
	var p folderPredicate
	if s.PredicateType != FolderType {
		return Folder{}, fmt.Errorf("predicate type: got %q, want %s", clip(s.PredicateType), FolderType)
	}
	if err := json.Unmarshal(s.Predicate, &p); err != nil {
		return Folder{}, fmt.Errorf("predicate: %w", err)
	}
	switch form := p.Serialization; {
	case form.Method != "files" || form.Hash != "sha256":
		return Folder{}, fmt.Errorf("serialization: got method %q with %q, want files with sha256", clip(form.Method), clip(form.Hash))
	case form.AllowSymlinks:
		return Folder{}, errors.New("the signature allows symbolic links, which mm does not follow")
	case len(s.Subject) != 1:
		return Folder{}, fmt.Errorf("subjects: got %d, want 1", len(s.Subject))
	}
	f := Folder{Name: s.Subject[0].Name, Ignored: p.Serialization.Ignored}
	seen := map[string]bool{}
	for _, r := range p.Resources {
		if r.Algorithm != "sha256" {
			return Folder{}, fmt.Errorf("%q: algorithm: got %q, want sha256", clip(r.Name), clip(r.Algorithm))
		}
		if seen[r.Name] {
			return Folder{}, fmt.Errorf("duplicate resource %q", clip(r.Name))
		}
		seen[r.Name] = true
		f.Files = append(f.Files, FolderFile{r.Name, r.Digest})
	}
	root, err := folderDigest(f.Files) // in the order of the signature
	if err != nil {
		return Folder{}, err
	}
	if got := s.Subject[0].Digest["sha256"]; got != root {
		return Folder{}, fmt.Errorf("subject digest: got %q, want %s of the resources", clip(got), root)
	}
	slices.SortFunc(f.Files, compareElements)
	return f, nil
}

// folderDigest returns the digest of a folder: SHA-256 of its files' raw digests.
func folderDigest(files []FolderFile) (string, error) {
	h := sha256.New()
	for _, f := range files {
		raw, err := hex.DecodeString(f.Digest)
		if err != nil || len(raw) != sha256.Size || strings.ToLower(f.Digest) != f.Digest {
			return "", fmt.Errorf("%q: invalid SHA-256 %q", clip(f.Name), clip(f.Digest))
		}
		h.Write(raw)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// compareElements orders names by path elements: a/x, a b, a-b/x.
func compareElements(a, b FolderFile) int {
	return slices.Compare(strings.Split(a.Name, "/"), strings.Split(b.Name, "/"))
}
