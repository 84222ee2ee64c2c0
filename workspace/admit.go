package workspace

import (
	"context"
	"fmt"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/sign"
	"mm-abi.org/mm/workspace/trust"
)

// Claim selects how strictly an artifact is verified. The zero value requires
// everything: the name it is called by, a trusted signature, every byte.
type Claim struct {
	Skip   bool   // use an unsigned or untrusted artifact: reported, audited, and refused under strict trust. Bytes are still hashed
	Expect string // the expected name of the artifact, as the user states it. Empty: the name in the reference

	// Require lists predicate types that must be attested by keys that may release it.
	Require []string
	// Measure uses an artifact without the evaluations that trust files demand, to make them.
	Measure bool
}

// Judgement is the verdict on an artifact's manifest and signatures. It does
// not cover the bytes that the manifest names.
type Judgement struct {
	Ref      string
	Digest   string
	Identity artifact.Identity
	Keys     []trust.Signer // that released it; nil if verification was skipped or only a warning accepted it
	Decided  []string       // the trust files used
	Skipped  bool

	repository string
	expect     string
}

// Verified is an artifact that may be used: its name is right, a trusted key
// released it (or the user skipped that), and every byte was hashed.
// [Workspace.Admit] returns one, and [Workspace.Made] for a fresh build.
type Verified struct {
	Judgement
	at *Located
	w  *Workspace
}

// Descriptor is the manifest or index.
func (v *Verified) Descriptor() ocispec.Descriptor { return v.at.desc }

// Store holds the bytes.
func (v *Verified) Store() *registry.Store { return v.at.store }

// Admit decides whether a located artifact may be used. It checks, in this
// order, so that an untrusted artifact is refused before its layers are read:
// identity and kind, signatures by policy, every byte, the files of the folder
// it was named by, and that the reference still has the same meaning. The
// decision is written to the audit log.
func (w *Workspace) Admit(ctx context.Context, at *Located, claim Claim) (*Verified, error) {
	if at.store == nil {
		return nil, fmt.Errorf("%s is at a registry: pull it first", at.ref)
	}
	v, err := w.admit(ctx, at, claim)
	e := audit.Entry{Action: "verify", Ref: at.ref, Digest: at.desc.Digest.String(), Result: Outcome(err)}
	if v != nil {
		e.Keys = ids(v.Keys)
	}
	if !claim.Skip || err != nil {
		w.Record(ctx, e)
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}

func (w *Workspace) admit(ctx context.Context, at *Located, claim Claim) (*Verified, error) {
	j, err := w.Judge(ctx, at, claim)
	if err != nil {
		return nil, err
	}
	v, err := w.hashed(ctx, at, j)
	if err != nil {
		return nil, err
	}
	if at.folder != "" {
		if err := compareFolder(ctx, at); err != nil {
			return nil, err
		}
		if err := w.warnUnknown(at); err != nil {
			return nil, err
		}
	}
	if w.admitted != nil {
		w.admitted()
	}
	if err := at.unmoved(ctx); err != nil {
		return nil, err
	}
	return v, nil
}

// hashed is the only place where a Verified is made: after every byte was read, and every
// statement compared with it.
func (w *Workspace) hashed(ctx context.Context, at *Located, j *Judgement) (*Verified, error) {
	if _, err := sign.VerifyTree(ctx, at.store, at.desc, sign.TreeOptions{}); err != nil {
		return nil, explainBytes(err, at.store)
	}
	if err := checkClaims(ctx, at.store, at.ref, at.tree, ""); err != nil {
		return nil, err
	}
	return &Verified{Judgement: *j, at: at, w: w}, nil
}

// Judge decides by the manifest, its config and its signatures alone, at a
// registry as well as in a store.
func (w *Workspace) Judge(ctx context.Context, at *Located, claim Claim) (*Judgement, error) {
	b, err := w.judges()
	if err != nil {
		return nil, err
	}
	id, err := at.identify(ctx)
	if err != nil {
		return nil, err
	}
	j := &Judgement{Ref: at.ref, Digest: at.desc.Digest.String(), Identity: id, Decided: b.Files(), repository: at.repository, expect: at.name}
	if j.repository == "" { // by digest, or a layout: the manifest decides
		j.repository = abi.LocalHost + "/" + id.Name
	}
	switch mirror := b.Mirrors[at.repository]; {
	case claim.Expect != "":
		j.expect = claim.Expect
	case at.alias:
	case mirror != "":
		j.expect = mirror
	}
	if err := checkIdentity(at.ref, j.expect, at.tag, claim.Expect != "", id); err != nil {
		return nil, w.asOwnName(at, err)
	}
	if claim.Skip {
		j.Skipped = true
		return j, w.skip(ctx, at, b)
	}
	if j.Keys, err = w.released(ctx, at, j, b); err != nil {
		return j, err
	}
	if err := w.requireEvidence(ctx, at, j.repository, claim.Require); err != nil || claim.Measure {
		return j, err
	}
	return j, w.requireEvals(ctx, at, j.repository)
}

// released returns the keys that released an artifact. For a digest, the rules of the
// repositories that it was pulled from apply; if it has another name there, they do not.
func (w *Workspace) released(ctx context.Context, at *Located, j *Judgement, b *trust.Bench) ([]trust.Signer, error) {
	var first error
	for _, o := range at.origins {
		if o.Name != j.Identity.Name && b.Mirrors[o.Repository] != j.Identity.Name {
			continue
		}
		keys, err := b.Verify(ctx, at.src, o.Repository, at.desc)
		if err == nil {
			j.repository = o.Repository
			return keys, nil
		}
		if first == nil {
			first = err
		}
	}
	keys, err := b.Verify(ctx, at.src, j.repository, at.desc)
	if err != nil && first != nil {
		err = first
	}
	return keys, err
}

// asOwnName adds the hint for a name that the user gave: versions of mm before
// aliases accepted any name.
func (w *Workspace) asOwnName(at *Located, err error) error {
	list, ok := diag.From(err)
	if s, storeErr := w.store(); !ok || storeErr != nil || at.store != s || w.opt.Layout != "" {
		return err
	}
	list[0].Hint += fmt.Sprintf("; if you named it so yourself, mm tag %s %s --alias says that you mean it", at.ref, at.ref)
	return list.Err()
}

// skip accepts an unverified artifact, unless the trust is strict.
func (w *Workspace) skip(ctx context.Context, at *Located, b *trust.Bench) error {
	if b.Strict {
		return fault(diag.SkippedVerify, "the trust file is strict", "leave --insecure-skip-verify out")
	}
	w.say("warning: %s %s is used UNVERIFIED", at.ref, at.desc.Digest)
	return w.record(ctx, audit.Entry{Action: "skip-verify", Ref: at.ref, Digest: at.desc.Digest.String(), Result: "skipped"})
}

// unmoved checks that the reference still names the verified artifact.
func (l *Located) unmoved(ctx context.Context) error {
	if l.now == nil {
		return nil
	}
	now, err := l.now(ctx)
	if err != nil {
		return err
	}
	if now.Digest != l.desc.Digest {
		return fault(diag.TagMoved, fmt.Sprintf("%s was %s when it was verified and is %s now", l.ref, l.desc.Digest, now.Digest), "run the command again, or use the digest")
	}
	return nil
}

func ids(keys []trust.Signer) []string {
	var out []string
	for _, k := range keys {
		out = append(out, k.ID)
	}
	return out
}

// Verify admits a local artifact, and judges one at a registry; files and
// unread count its unread layers and their bytes.
func (w *Workspace) Verify(ctx context.Context, at *Located, claim Claim) (j *Judgement, files int, unread int64, err error) {
	if !at.Remote() {
		v, err := w.Admit(ctx, at, claim)
		if err != nil {
			return nil, 0, 0, err
		}
		return &v.Judgement, 0, 0, nil
	}
	j, err = w.Judge(ctx, at, claim)
	if err == nil {
		err = checkClaims(ctx, at.src, at.ref, at.tree, "")
	}
	if err == nil {
		err = w.complete(ctx, at, at.src)
	}
	if err == nil {
		err = at.unmoved(ctx)
	}
	if err == nil {
		w.follow(ctx, at, j)
		files, unread = weight(at.tree)
	}
	e := audit.Entry{Action: "verify", Ref: at.ref, Digest: at.desc.Digest.String(), Result: Outcome(err)}
	if j != nil {
		e.Keys = ids(j.Keys)
	}
	w.Record(ctx, e)
	return j, files, unread, err
}
