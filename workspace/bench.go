package workspace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"mm-abi.org/mm/registry/sign"
)

// Key is a key that released an artifact.
type Key struct {
	ID   string `json:"id"`
	Name string `json:"name,omitempty"` // as the trust file calls it
}

// String is the name with the beginning of the id.
func (k Key) String() string {
	id := k.ID[:min(12, len(k.ID))]
	if k.Name == "" {
		return id
	}
	return k.Name + " (" + id + ")"
}

// judge is one trust file at work.
type judge struct {
	file     string
	names    map[string]string // key id → name
	verifier *sign.Verifier
}

// bench is every judge that must let an artifact pass.
type bench struct {
	judges  []judge
	strict  bool              // verification may not be skipped
	mirrors map[string]string // repository → the name of what it holds
	empty   bool              // nobody is trusted for anything
	offered string            // a project's trust file that was not accepted
}

// loadBench finds who decides. Keys or a file named by the user decide alone.
// Otherwise the user's own file does, and a project's must agree with it; once
// the user has accepted the project's, that one decides for the project.
func (w *Workspace) loadBench() (*bench, error) {
	switch {
	case len(w.opt.Keys) > 0:
		t, err := trustKeys(w.opt.Keys)
		if err != nil {
			return nil, err
		}
		return w.seat(t)
	case w.opt.Trust != "":
		t, err := LoadTrust(w.opt.Trust)
		if err != nil {
			return nil, err
		}
		return w.seat(t)
	}
	user, err := LoadTrust(w.TrustFile())
	if err != nil {
		return nil, err
	}
	set, err := w.settings()
	if err != nil || set.Trust == "" {
		if err != nil {
			return nil, err
		}
		return w.seat(user)
	}
	return w.withProject(user, set.Trust)
}

func (w *Workspace) withProject(user *Trust, file string) (*bench, error) {
	project, err := LoadTrust(file)
	if err != nil {
		return nil, err
	}
	if project.sum == "" {
		return nil, hinted{fmt.Errorf("%s names the trust file %s, which is not there", ConfigName, file), "correct trust in " + ConfigName}
	}
	if err := own(file); err != nil {
		return nil, err
	}
	accepted, err := w.accepted(project)
	if err != nil {
		return nil, err
	}
	if accepted {
		b, err := w.seat(project)
		if err == nil {
			b.strict = b.strict || user.Strict
		}
		return b, err
	}
	b, err := w.seat(user, project)
	if err == nil {
		b.mirrors, b.offered = user.Mirrors, file
	}
	return b, err
}

// seat makes judges of trust files. The first one's mirrors count.
func (w *Workspace) seat(files ...*Trust) (*bench, error) {
	b := &bench{mirrors: files[0].Mirrors, empty: len(files[0].Rules) == 0}
	for _, t := range files {
		p, err := t.Policy()
		if err != nil {
			return nil, err
		}
		j := judge{file: t.file, names: map[string]string{}}
		j.verifier, err = sign.NewVerifier(p, sign.VerifyOptions{Now: time.Now(), Warned: func(r *sign.Refusal) {
			w.say("warning: %v", r)
		}})
		if err != nil {
			return nil, err
		}
		for name, k := range p.Keys {
			if pub, err := sign.LoadPublic(k.PEM); err == nil {
				j.names[pub.KeyID()] = name
			}
		}
		b.judges = append(b.judges, j)
		b.strict = b.strict || p.Strict
	}
	return b, nil
}

// files names the trust files that decide.
func (b *bench) files() []string {
	var out []string
	for _, j := range b.judges {
		out = append(out, j.file)
	}
	return out
}

// verify asks every judge and returns the keys that count, sorted by id. The
// first refusal stands, with a way out and the file that decided.
func (b *bench) verify(ctx context.Context, src content.ReadOnlyGraphStorage, repository string, desc ocispec.Descriptor) ([]Key, error) {
	found := map[string]Key{}
	for i, j := range b.judges {
		ids, err := j.verifier.Verify(ctx, src, repository, desc)
		if err != nil {
			return nil, b.explain(err, i)
		}
		for _, id := range ids {
			if old, ok := found[id]; !ok || old.Name == "" {
				found[id] = Key{ID: id, Name: j.names[id]}
			}
		}
	}
	var keys []Key
	for _, k := range found {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b Key) int { return strings.Compare(a.ID, b.ID) })
	return keys, nil
}

// explain names the trust file that decided, and gives hints that mm's own
// commands follow.
func (b *bench) explain(err error, i int) error {
	var r *sign.Refusal
	if !errors.As(err, &r) {
		return err
	}
	told := *r
	switch told.Reason {
	case sign.NoRule, sign.UnknownKey, sign.Scope:
		told.Detail += " (" + b.judges[i].file + ")"
	}
	switch {
	case i == 0 && b.offered != "" && (told.Reason == sign.NoRule || told.Reason == sign.UnknownKey || told.Reason == sign.Scope):
		told.Hint = "the project's trust file counts only beside your own: read it, then mm trust accept " + b.offered
	case told.Reason == sign.NoRule && b.empty:
		told.Hint = "nobody is trusted yet: mm keys generate makes a key of your own and trusts it (then --sign default); mm trust add KEY.pub trusts a publisher's"
	case told.Reason == sign.NoRule, told.Reason == sign.UnknownKey, told.Reason == sign.Scope:
		told.Hint = "if you trust the publisher: mm trust add KEY.pub --match '" + told.Repository + "'"
	case told.Reason == sign.Unsigned:
		told.Hint = "if it is yours: mm sign, or module add and assemble --sign default (mm keys generate makes the key); otherwise ask the publisher to sign"
	}
	return &told
}
