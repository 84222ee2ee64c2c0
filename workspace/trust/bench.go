package trust

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/registry/sign"
	"mm-abi.org/mm/workspace/home"
)

// Signer is a key or an identity that signed.
type Signer struct {
	ID      string `json:"id"`             // of an identity: the SHA-256 of issuer and subject
	Name    string `json:"name,omitempty"` // as the trust file calls it
	Issuer  string `json:"issuer,omitempty"`
	Subject string `json:"subject,omitempty"` // of an identity
}

// String is the name with the beginning of the id, or the name with subject and issuer.
func (k Signer) String() string {
	if k.Issuer != "" {
		return strings.TrimLeft(fmt.Sprintf("%s (%s by %s)", k.Name, k.Subject, k.Issuer), " ")
	}
	id := k.ID[:min(12, len(k.ID))]
	if k.Name == "" {
		return id
	}
	return k.Name + " (" + id + ")"
}

// judge is one trust file at work.
type judge struct {
	file     string
	trust    *File
	keys     int // keys and identities
	verifier *sign.Verifier
}

// signer describes a signer by the names of the trust file.
func (j judge) signer(s sign.Signer) Signer {
	out := Signer{ID: s.ID, Issuer: s.Issuer, Subject: s.Subject}
	if names := j.verifier.Names(s); len(names) > 0 {
		out.Name = names[0]
	}
	return out
}

// Bench is the list of judges that must all accept an artifact.
type Bench struct {
	judges  []judge
	Strict  bool              // verification may not be skipped
	Mirrors map[string]string // repository → name of the mirrored artifact
	Empty   bool              // no key is trusted for anything
	offered string            // a project's trust file that was not accepted
}

// BenchOptions for [NewBench].
type Options struct {
	Home    string                           // with the user's trust file
	Keys    []string                         // files of public keys that decide alone. Nil: trust files
	File    string                           // trust file that decides alone. Empty: the user's, narrowed by the project's
	Project func() (file string, err error)  // the project's trust file; empty: none
	Say     func(format string, args ...any) // receives warnings
}

// NewBench loads the trust files that decide. Keys or a file named by the user
// decide alone. Otherwise the user's file decides, and a project's must agree
// with it; once the user has accepted the project's, that one decides for the
// project.
func NewBench(opt Options) (*Bench, error) {
	switch {
	case len(opt.Keys) > 0:
		t, err := trustKeys(opt.Keys)
		if err != nil {
			return nil, err
		}
		return opt.seat(t)
	case opt.File != "":
		t, err := Load(opt.File)
		if err != nil {
			return nil, err
		}
		t.warnWritable(opt.Say)
		return opt.seat(t)
	}
	user, err := Load(filepath.Join(opt.Home, home.TrustName))
	if err != nil {
		return nil, err
	}
	user.warnWritable(opt.Say)
	project, err := opt.Project()
	if err != nil {
		return nil, err
	}
	if project == "" {
		return opt.seat(user)
	}
	return opt.withProject(user, project)
}

// warnWritable warns that others can change the trust file or a key's file, and so
// choose whom the user trusts.
func (t *File) warnWritable(say func(format string, args ...any)) {
	files := []string{t.file}
	for _, name := range slices.Sorted(maps.Keys(t.Keys)) {
		if file := t.keyFile(name); file != "" {
			files = append(files, file)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.Roots)) {
		files = append(files, t.path(t.Roots[name].File))
	}
	for _, a := range t.Authorities {
		files = append(files, t.path(a.File))
	}
	for _, file := range files {
		if why := home.Writable(file); why != "" {
			say("warning: %s %s, who can choose the keys that you trust: take the file over with chmod o-w and chown", file, why)
		}
	}
}

func (opt Options) withProject(user *File, file string) (*Bench, error) {
	project, err := Load(file)
	if err != nil {
		return nil, err
	}
	if project.sum == "" {
		return nil, diag.Hinted(fmt.Errorf("%s names the missing trust file %s", home.ConfigName, file), "correct trust in "+home.ConfigName)
	}
	if err := home.CheckOwner(file); err != nil {
		return nil, err
	}
	if len(project.Grants) > 0 {
		opt.Say("warning: grants in %s are ignored: only your own trust file grants permissions to skills", file)
	}
	accepted, err := project.accepted(opt.Home)
	if err != nil {
		return nil, err
	}
	if accepted {
		b, err := opt.seat(project)
		if err == nil {
			b.Strict = b.Strict || user.Strict
		}
		return b, err
	}
	b, err := opt.seat(user, project)
	if err == nil {
		b.Mirrors, b.offered = user.Mirrors, file
	}
	return b, err
}

// seat makes judges of trust files. The mirrors are the first file's.
func (opt Options) seat(files ...*File) (*Bench, error) {
	b := &Bench{Mirrors: files[0].Mirrors, Empty: len(files[0].Rules) == 0}
	for _, t := range files {
		p, err := t.Policy()
		if err != nil {
			return nil, err
		}
		j := judge{file: t.file, trust: t, keys: len(p.Keys) + len(p.Identities)}
		j.verifier, err = sign.NewVerifier(p, sign.VerifyOptions{Now: time.Now(), Warned: func(r *sign.Refusal) {
			opt.Say("warning: %v", r)
		}})
		if err != nil {
			return nil, err
		}
		b.judges = append(b.judges, j)
		b.Strict = b.Strict || p.Strict
	}
	return b, nil
}

// Vouches reports whether a judge accepts the signature bundle on subject.
func (b *Bench) Vouches(ctx context.Context, src content.Fetcher, subject, bundle ocispec.Descriptor) (bool, error) {
	for _, j := range b.judges {
		if ok, err := j.verifier.Vouches(ctx, src, subject, bundle); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// Keys returns the number of trusted keys and identities over all files.
func (b *Bench) Keys() (n int) {
	for _, j := range b.judges {
		n += j.keys
	}
	return n
}

// files names the trust files that decide.
func (b *Bench) Files() []string {
	var out []string
	for _, j := range b.judges {
		out = append(out, j.file)
	}
	return out
}

// Verify asks every judge and returns the accepted signers, sorted by id. The
// first refusal is returned, with a hint and the file that decided.
func (b *Bench) Verify(ctx context.Context, src content.ReadOnlyGraphStorage, repository string, desc ocispec.Descriptor) ([]Signer, error) {
	found := map[string]Signer{}
	for i, j := range b.judges {
		signers, err := j.verifier.Signers(ctx, src, repository, desc)
		if err != nil {
			return nil, b.explain(err, i)
		}
		for _, one := range signers {
			if old, ok := found[one.ID]; !ok || old.Name == "" {
				found[one.ID] = j.signer(one)
			}
		}
	}
	var keys []Signer
	for _, k := range found {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b Signer) int { return strings.Compare(a.ID, b.ID) })
	return keys, nil
}

// explain adds the deciding trust file and hints with mm's commands to a
// refusal.
func (b *Bench) explain(err error, i int) error {
	var r *sign.Refusal
	if !errors.As(err, &r) {
		return err
	}
	explained := *r
	switch explained.Reason {
	case sign.NoRule, sign.UnknownKey, sign.Scope:
		explained.Detail += " (" + b.judges[i].file + ")"
	}
	switch {
	case i == 0 && b.offered != "" && (explained.Reason == sign.NoRule || explained.Reason == sign.UnknownKey || explained.Reason == sign.Scope):
		explained.Hint = "the project's trust file counts only beside your own: read it, then mm trust accept " + b.offered
	case explained.Reason == sign.NoRule && b.Empty:
		explained.Hint = "nobody is trusted yet: mm keys generate makes a key of your own and trusts it (then --sign default); mm trust add KEY.pub trusts a publisher's"
	case explained.Reason == sign.NoRule, explained.Reason == sign.UnknownKey, explained.Reason == sign.Scope:
		explained.Hint = "if you trust the publisher: mm trust add KEY.pub --match '" + explained.Repository + "'"
	case explained.Reason == sign.Unsigned:
		explained.Hint = "if it is yours: mm sign, or module add and assemble --sign default (mm keys generate makes the key); otherwise ask the publisher to sign"
	}
	return &explained
}
