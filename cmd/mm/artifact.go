package main

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/urfave/cli/v2"
	"oras.land/oras-go/v2/content"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/diag"
	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/sign"
)

// located is an artifact that a command's argument means: in the store, or in
// an OCI layout such as the output folder of assemble.
type located struct {
	store      *registry.Store
	desc       ocispec.Descriptor
	ref        string // as the user wrote it
	repository string // what trust rules match: local/NAME where no registry is involved
	name       string // the artifact's own name, where the reference says one
	tag        string
	entry      string // reference name in the layout, where ref is its folder
	target     string // chosen by DIR/TARGET
	layout     bool   // ref is the folder of a layout
	digested   bool   // ref is a digest, which cannot move
}

// localRepository is the prefix of what never was in a registry.
const localRepository = "local/"

// locate finds what arg means: an OCI layout, a target folder inside one, or a
// reference in the store. The caller closes the store.
func locate(c *cli.Context, arg string) (*located, error) {
	if dir, target, ok := layoutOf(arg); ok {
		s, err := registry.Open(dir, registry.Options{MustExist: true, ReadOnly: c.Command.Name != "sign"})
		if err != nil {
			return nil, err
		}
		l := &located{store: s, ref: arg, target: target, layout: true}
		if err := l.newest(c.Context); err != nil {
			s.Close()
			return nil, err
		}
		return l, nil
	}
	s, err := openLayout(c)
	if err != nil {
		return nil, err
	}
	desc, err := find(c, s, arg)
	if err != nil {
		s.Close()
		return nil, err
	}
	l := &located{store: s, desc: desc, ref: arg}
	if ref, err := abi.ParseRef(arg); err == nil && (ref.Tag != "" || ref.Digest != "") {
		l.repository, l.name, l.tag, l.digested = ref.Repository(), ref.Name, ref.Tag, ref.Digest != ""
	} else {
		l.tag = arg
	}
	return l, nil
}

// layoutOf reports whether arg is an OCI layout or a folder in one.
func layoutOf(arg string) (dir, target string, ok bool) {
	info, err := os.Stat(arg)
	if err != nil || !info.IsDir() {
		return "", "", false
	}
	if isLayout(arg) {
		return arg, "", true
	}
	abs, err := filepath.Abs(arg)
	if err == nil && isLayout(filepath.Dir(abs)) {
		return filepath.Dir(abs), filepath.Base(abs), true
	}
	return "", "", false
}

// newest takes the newest build of the layout. A layout with builds of several
// names wants a name.
func (l *located) newest(ctx context.Context) error {
	found, err := l.store.Builds(ctx)
	if err != nil {
		return err
	}
	if len(found) == 0 || found[0].Name != found[len(found)-1].Name {
		return hinted{fmt.Errorf("%s holds builds of %d names", l.ref, names(found)), "name one: NAME:VERSION --layout DIR; mm ls --layout DIR lists them"}
	}
	l.desc, l.tag, l.entry = found[0].Descriptor, abi.VersionTag(found[0].Version), found[0].Ref
	l.local()
	return nil
}

// names counts the different names of builds.
func names(builds []registry.Build) int {
	set := map[string]bool{}
	for _, b := range builds {
		set[b.Name] = true
	}
	return len(set)
}

// local settles the repository of what has none.
func (l *located) local() {
	l.name = path.Base(l.repository)
	first, _, more := strings.Cut(l.repository, "/")
	if more && (strings.ContainsAny(first, ".:") || first == "localhost") {
		return
	}
	if l.repository == "" || l.repository == "." {
		l.repository, l.name = "", ""
		return
	}
	l.repository = localRepository + l.repository
}

// unmoved makes sure that the tag still names what was verified: whoever asked
// for a tag shall not get what it meant a moment ago.
func (l *located) unmoved(ctx context.Context) error {
	if l.digested {
		return nil
	}
	ref := l.ref
	if l.layout {
		ref = l.entry
	}
	now, err := l.store.Resolve(ctx, ref)
	if err != nil {
		return err
	}
	var list diag.List
	if now.Digest != l.desc.Digest {
		list.Add(diag.TagMoved, diag.Pos{}, fmt.Sprintf("%s was %s when it was verified and is %s now", l.ref, l.desc.Digest, now.Digest), "run the command again, or use the digest")
	}
	return list.Err()
}

// annotations of a manifest or an index.
func annotationsOf(ctx context.Context, src content.Fetcher, desc ocispec.Descriptor) (map[string]string, error) {
	if desc.MediaType == ocispec.MediaTypeImageIndex {
		ix, err := registry.ReadIndex(ctx, src, desc)
		if err != nil {
			return nil, err
		}
		return ix.Annotations, nil
	}
	a, err := registry.ReadArtifact(ctx, src, desc)
	if err != nil {
		return nil, err
	}
	return a.Annotations, nil
}

// checkIdentity compares the name and version in a reference with those in the
// signed manifest: a signature does not bind a repository, so a release copied
// to another name is caught here.
func (l *located) checkIdentity(ctx context.Context) error {
	notes, err := annotationsOf(ctx, l.store, l.desc)
	if err != nil {
		return err
	}
	name, version := notes[abi.AnnotationName], notes[abi.AnnotationVersion]
	if l.repository == "" { // by digest, or a layout: the manifest says what it is
		l.name, l.repository = name, localRepository+name
	}
	var list diag.List
	if name != "" && l.name != "" && name != l.name {
		list.Add(diag.IdentityDiffers, diag.Pos{}, fmt.Sprintf("%s holds %s %s", l.ref, name, version), "check the repository")
	}
	if version != "" && abi.TagMeaning(l.tag, version, notes[abi.AnnotationTarget]) == abi.MeansMistake {
		list.Add(diag.IdentityDiffers, diag.Pos{}, fmt.Sprintf("%s holds %s %s", l.ref, name, version), "check the tag")
	}
	return list.Err()
}

// verified makes sure that an artifact was released by a trusted key and that
// every byte of it is what was released. With --insecure-skip-verify it says
// so and lets it pass, unless the policy is strict.
func (p *program) verified(c *cli.Context, l *located) error {
	v, policy, err := p.verifierOf(c)
	if err != nil {
		return err
	}
	if c.Bool("insecure-skip-verify") {
		return p.skipVerify(c, l, policy)
	}
	keys, err := p.verify(c.Context, v, l)
	if err == nil {
		if p.testOnlyVerified != nil {
			p.testOnlyVerified(l)
		}
		err = l.unmoved(c.Context)
	}
	p.record(c.Context, audit.Entry{Action: "verify", Ref: l.ref, Digest: l.desc.Digest.String(), Keys: keys, Result: outcome(err)})
	return err
}

// verify checks identity, signatures and bytes, in this order: a stranger's
// artifact is refused before its layers are read.
func (p *program) verify(ctx context.Context, v *sign.Verifier, l *located) ([]string, error) {
	if err := l.checkIdentity(ctx); err != nil {
		return nil, err
	}
	keys, err := v.Verify(ctx, l.store, l.repository, l.desc)
	if err != nil {
		return nil, err
	}
	_, err = sign.VerifyTree(ctx, l.store, l.desc, sign.TreeOptions{})
	return keys, err
}

// skipVerify is what remains without signatures: the bytes are still compared
// with their digests.
func (p *program) skipVerify(c *cli.Context, l *located, policy sign.Policy) error {
	var list diag.List
	if policy.Strict {
		list.Add(diag.SkippedVerify, diag.Pos{}, "the trust file is strict", "leave --insecure-skip-verify out")
		return list.Err()
	}
	p.say("mm: warning: %s %s is used UNVERIFIED: nobody vouches for it", l.ref, l.desc.Digest)
	p.record(c.Context, audit.Entry{Action: "skip-verify", Ref: l.ref, Digest: l.desc.Digest.String(), Result: "skipped"})
	_, err := sign.VerifyTree(c.Context, l.store, l.desc, sign.TreeOptions{})
	return err
}

func outcome(err error) string {
	if err != nil {
		return err.Error()
	}
	return "ok"
}

// record writes the audit log. Work is not stopped by a log that cannot be
// written, but the user is told.
func (p *program) record(ctx context.Context, e audit.Entry) {
	dir, err := home()
	if err == nil {
		e.Time = time.Now().UTC().Format(time.RFC3339)
		err = audit.Append(context.WithoutCancel(ctx), filepath.Join(dir, auditFile), e)
	}
	if err != nil {
		p.say("mm: warning: %v", err)
	}
}
