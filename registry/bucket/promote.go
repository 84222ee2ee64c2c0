package bucket

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"mm-abi.org/mm/internal/fsx"
)

// pointerType is the type of the payload that a pointer signs.
const pointerType = "application/vnd.mm-abi.bucket-pointer.v1+json"

const (
	maxPointer = 4 << 20 // bytes of a pointer
	maxFiles   = 10_000  // of a pointer
)

// Signer signs a payload.
type Signer interface {
	SignPayload(typ string, payload []byte) ([]byte, error)
}

// Key verifies the signature of a payload.
type Key interface {
	KeyID() string
	VerifyPayload(typ string, payload, sig []byte) error
}

// Pointer names the files of a version in a stage. It is written once, at
// promo/STAGE/NAME@VERSION below the root that its paths are relative to.
type Pointer struct {
	Stage   string        `json:"stage"`
	Name    string        `json:"name"`
	Version string        `json:"version"`
	Files   []PointerFile `json:"files"` // by name
	Key     string        `json:"-"`     // id of the key that signed it
}

// PointerFile is a file of a version.
type PointerFile struct {
	Name   string `json:"name"` // in the folder that it is copied to
	Path   string `json:"path"` // below the root
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// envelope is a signed pointer (DSSE).
type envelope struct {
	PayloadType string      `json:"payloadType"`
	Payload     []byte      `json:"payload"`
	Signatures  []signature `json:"signatures"`
}

type signature struct {
	KeyID string `json:"keyid"`
	Sig   []byte `json:"sig"`
}

var namePattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`) })

// before returns the stage that a version must have passed, or "".
func before(stage string) string {
	return map[string]string{"candidate": "staging", "prod": "candidate"}[stage]
}

// ParseVersion parses NAME@VERSION.
func ParseVersion(text string) (name, version string, err error) {
	name, version, _ = strings.Cut(text, "@")
	if !namePattern().MatchString(name) || !namePattern().MatchString(version) {
		return "", "", fmt.Errorf("%w: got %q, want NAME@VERSION of letters, digits, dots, hyphens and underscores", ErrPointer, text)
	}
	return name, version, nil
}

// at returns the key of the pointer below the root.
func (p Pointer) at(root Address) Address {
	return root.Under("promo/" + p.Stage + "/" + p.Name + "@" + p.Version)
}

// PromoteOptions configures [Promote].
type PromoteOptions struct {
	Stage  string
	Paths  []string // objects and prefixes below the root; for candidate and prod none: those of the stage before
	Signer Signer
	KeyID  string
	Keys   []Key // that may have signed the pointer of the stage before
}

// Promote writes the pointer of a version, unless there is one: of several
// writers one wins, the others get [ErrExists]. A pointer with the same files is
// no error. Candidates must be in staging, prod must be a candidate.
func Promote(ctx context.Context, b Bucket, root Address, version string, opt PromoteOptions) (Pointer, error) {
	p, err := opt.pointer(ctx, b, root, version)
	if err != nil {
		return p, err
	}
	payload, err := json.Marshal(p)
	if err != nil {
		return p, err
	}
	sig, err := opt.Signer.SignPayload(pointerType, payload)
	if err != nil {
		return p, err
	}
	data, err := json.Marshal(envelope{pointerType, payload, []signature{{opt.KeyID, sig}}})
	if err != nil {
		return p, err
	}
	p.Key = opt.KeyID
	_, err = PutBytes(ctx, b, p.at(root).Key, data, true)
	if errors.Is(err, ErrExists) {
		if old, readErr := GetBytes(ctx, b, p.at(root).Key, maxPointer); readErr == nil && bytes.Equal(old, data) {
			return p, nil
		}
	}
	if err != nil {
		return p, &CopyError{p.at(root).String(), err}
	}
	return p, nil
}

// pointer collects the files of a version.
func (opt PromoteOptions) pointer(ctx context.Context, b Bucket, root Address, version string) (Pointer, error) {
	name, number, err := ParseVersion(version)
	p := Pointer{Stage: opt.Stage, Name: name, Version: number}
	if err != nil {
		return p, err
	}
	if !namePattern().MatchString(p.Stage) {
		return p, fmt.Errorf("%w: stage %q", ErrPointer, p.Stage)
	}
	if stage := before(p.Stage); stage != "" {
		if len(opt.Paths) > 0 {
			return p, fmt.Errorf("%w: the files of %s are those of %s: want no paths", ErrPointer, p.Stage, stage)
		}
		old, err := ReadPointer(ctx, b, root, stage, version, opt.Keys)
		p.Files = old.Files
		return p, err
	}
	for _, path := range opt.Paths {
		files, err := filesAt(ctx, b, root, path)
		if err != nil {
			return p, err
		}
		p.Files = append(p.Files, files...)
	}
	slices.SortFunc(p.Files, func(a, b PointerFile) int { return strings.Compare(a.Name, b.Name) })
	return p, p.check(p.Stage, version)
}

// filesAt describes the object at a path, or the objects below it.
func filesAt(ctx context.Context, b Bucket, root Address, path string) ([]PointerFile, error) {
	var files []PointerFile
	place := root.Under(path)
	keys := []string{place.Key}
	base := place.Key[strings.LastIndexByte(strings.TrimSuffix(place.Key, "/"), '/')+1:]
	prefix := strings.TrimSuffix(place.Key, base)
	if strings.HasSuffix(path, "/") {
		keys, prefix = nil, place.Key
		for info, err := range b.List(ctx, place.Key) {
			if err != nil {
				return nil, &CopyError{place.String(), err}
			}
			if len(keys) >= maxFiles {
				return nil, fmt.Errorf("%w: more than %d files", ErrPointer, maxFiles)
			}
			keys = append(keys, info.Key)
		}
	}
	for _, key := range described(keys) {
		name := strings.TrimPrefix(key, prefix)
		key, info, err := pinned(ctx, b, key)
		if err != nil {
			return nil, &CopyError{root.At(key).String(), err}
		}
		below := strings.TrimPrefix(strings.TrimPrefix(key, strings.TrimSuffix(root.Key, "/")), "/")
		files = append(files, PointerFile{Name: name, Path: below, Size: info.Size, SHA256: info.SHA256})
	}
	return files, nil
}

// pinned describes the file at key. That of a file in pieces is another key, whose
// content does not change.
func pinned(ctx context.Context, b Bucket, key string) (string, Info, error) {
	w, err := Assembled(ctx, b, key)
	if err != nil {
		return key, Info{}, err
	}
	info, err := w.Stat(ctx, key)
	if err == nil && info.SHA256 == "" {
		err = fmt.Errorf("%w: the object has no sha256 in its metadata", ErrDigest)
	}
	if j, ok := w.(joined); ok && err == nil {
		pin, err := j.pin(ctx)
		return cmp.Or(pin, key), info, err
	}
	return key, info, err
}

// check refuses a pointer that does not fit its key or names unsafe files.
func (p Pointer) check(stage, version string) error {
	if p.Stage != stage || p.Name+"@"+p.Version != version {
		return fmt.Errorf("%w: got %s/%s@%s, want %s/%s", ErrPointer, p.Stage, p.Name, p.Version, stage, version)
	}
	if len(p.Files) == 0 || len(p.Files) > maxFiles {
		return fmt.Errorf("%w: got %d files, want 1 to %d", ErrPointer, len(p.Files), maxFiles)
	}
	var names []string
	for i, f := range p.Files {
		if err := errors.Join(CheckKey(f.Name), CheckKey(f.Path)); err != nil {
			return fmt.Errorf("%w: %w", ErrPointer, err)
		}
		if f.Size < 0 || !IsDigest(f.SHA256) || i > 0 && f.Name <= p.Files[i-1].Name {
			return fmt.Errorf("%w: file %q: want a size, a sha256 and names in order", ErrPointer, f.Name)
		}
		names = append(names, f.Name)
	}
	if err := distinct(names); err != nil {
		return fmt.Errorf("%w: %w", ErrPointer, err)
	}
	return nil
}

// ReadPointer reads the pointer of a version and verifies its signature by one of
// keys.
func ReadPointer(ctx context.Context, b Bucket, root Address, stage, version string, keys []Key) (Pointer, error) {
	name, number, err := ParseVersion(version)
	if err != nil {
		return Pointer{}, err
	}
	at := Pointer{Stage: stage, Name: name, Version: number}.at(root)
	data, err := GetBytes(ctx, b, at.Key, maxPointer)
	if err != nil {
		return Pointer{}, &CopyError{at.String(), err}
	}
	p, err := openPointer(data, keys)
	if err == nil {
		err = p.check(stage, version)
	}
	if err != nil {
		return Pointer{}, &CopyError{at.String(), err}
	}
	return p, nil
}

// openPointer verifies and parses a pointer.
func openPointer(data []byte, keys []Key) (Pointer, error) {
	var e envelope
	if err := strict(data, &e); err != nil || e.PayloadType != pointerType {
		return Pointer{}, fmt.Errorf("%w: not a signed pointer: type %q: %w", ErrPointer, e.PayloadType, errors.Join(err, ErrPointer))
	}
	for _, s := range e.Signatures {
		for _, k := range keys {
			if k.VerifyPayload(pointerType, e.Payload, s.Sig) != nil {
				continue
			}
			p := Pointer{}
			if err := strict(e.Payload, &p); err != nil {
				return p, fmt.Errorf("%w: %w", ErrPointer, err)
			}
			p.Key = k.KeyID()
			return p, nil
		}
	}
	return Pointer{}, fmt.Errorf("%w: none of %d keys verifies its %d signatures", ErrPointer, len(keys), len(e.Signatures))
}

// strict decodes JSON without unknown keys.
func strict(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

// Fetch downloads the files of a verified pointer into dir.
func Fetch(ctx context.Context, b Bucket, root Address, p Pointer, dir string) error {
	d, err := fsx.Create(dir, 0o755, fsx.Options{})
	if err != nil {
		return err
	}
	defer d.Close()
	for _, f := range p.Files {
		at := root.Under(f.Path)
		w, err := Assembled(ctx, b, at.Key)
		if err != nil {
			return &CopyError{at.String(), err}
		}
		info, _, err := Download(ctx, w, at.Key, d, f.Name, DownloadOptions{Place: at.String(), SHA256: f.SHA256})
		if err == nil && info.Size != f.Size {
			err = fmt.Errorf("%w: got %d bytes, want %d", ErrDigest, info.Size, f.Size)
		}
		if err != nil {
			return &CopyError{at.String(), err}
		}
	}
	return nil
}
