package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/sign"
	"mm-abi.org/mm/workspace/home"
	"mm-abi.org/mm/workspace/trust"
)

// DefaultKey is the name of the user's default key.
const DefaultKey = "mm"

// Signer signs with one private key; it is an assemble.Signer. One of [Workspace.Certified]
// has no key and signs releases and evidence alone.
type Signer struct {
	Key     *sign.PrivateKey
	Sealer  sign.Sealer // the key, or an identity
	Options sign.Options
}

// Sign attaches release signatures in the store.
func (s *Signer) Sign(ctx context.Context, store *registry.Store, subject ocispec.Descriptor) ([]ocispec.Descriptor, error) {
	signatures, err := sign.Sign(ctx, store, subject, s.Sealer, s.Options)
	var bundles []ocispec.Descriptor
	for _, m := range signatures {
		bundles = append(bundles, m.Bundle)
	}
	return bundles, err
}

// Signer loads the private key in file, or the user's if file is empty or
// "default". If the key is encrypted, password is called with the file's name.
func (w *Workspace) Signer(file string, password func(file string) ([]byte, error)) (*Signer, error) {
	if file == "" || file == "default" {
		file = w.KeyPrefix(DefaultKey) + ".key"
	}
	data, err := fsx.ReadFile(file, trust.MaxKey)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, diag.Hinted(fmt.Errorf("no private key at %s", file), "mm keys generate makes one")
	}
	if err != nil {
		return nil, err
	}
	if home.Readable(file) {
		w.say("warning: other users can read the private key %s: chmod 600 makes it private", file)
	}
	key, err := sign.LoadPrivate(data, func() ([]byte, error) { return password(file) })
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", strings.TrimSpace(file), err)
	}
	created, err := SourceDate()
	if err != nil {
		return nil, err
	}
	s := &Signer{Key: key, Sealer: key}
	if created != nil {
		s.Options.Created = *created
	}
	return s, nil
}

// KeyOptions for [Workspace.GenerateKey].
type KeyOptions struct {
	Algorithm sign.Algorithm // empty is refused
	Name      string         // name of the key
	Prefix    string         // files PREFIX.key and PREFIX.pub. Empty: in the home's keys folder
	NoTrust   bool           // leave the trust file alone
}

// NewKey is a key pair on disk.
type NewKey struct {
	Private string `json:"private"`
	Public  string `json:"public"`
	ID      string `json:"id"`
}

// GenerateKey makes a key pair, encrypted with the password unless that is nil, and trusts it on
// this machine. It fails before asking for a password if a file of that name
// exists.
func (w *Workspace) GenerateKey(ctx context.Context, opt KeyOptions, password func() ([]byte, error)) (*NewKey, error) {
	prefix := opt.Prefix
	if prefix == "" {
		if w.homeless != nil {
			return nil, w.homeless
		}
		prefix = w.KeyPrefix(opt.Name)
	}
	pair := &NewKey{Private: prefix + ".key", Public: prefix + ".pub"}
	for _, file := range []string{pair.Private, pair.Public} {
		if home.Exists(file) {
			return nil, diag.Hinted(fmt.Errorf("%s is there already", file), "move it away, or choose another --name")
		}
	}
	secret, err := password()
	if err != nil {
		return nil, err
	}
	private, public, err := sign.Generate(opt.Algorithm, secret)
	if err != nil {
		return nil, err
	}
	key, err := sign.LoadPublic(public)
	if err != nil {
		return nil, err
	}
	pair.ID = key.KeyID()
	dir, err := fsx.Create(filepath.Dir(prefix), 0o700, fsx.Options{})
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if err := dir.WriteFile(filepath.Base(pair.Private), private, 0o600); err != nil {
		return nil, err
	}
	if err := dir.WriteFile(filepath.Base(pair.Public), public, 0o644); err != nil {
		return nil, err
	}
	if opt.NoTrust {
		return pair, nil
	}
	return pair, trust.Change(ctx, w.TrustFile(), func(t *trust.File) error {
		return t.Add(opt.Name, trust.Key{PEM: string(public)}, []string{"**"})
	})
}
