package workspace

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/registry/remote"
	"mm-abi.org/mm/registry/sign"
)

// defaultSettle is how long a promotion waits for a rival's write.
const defaultSettle = 2 * time.Second

// PromoteOptions for [Workspace.Promote].
type PromoteOptions struct {
	To       string
	Valid    time.Duration // until the document expires. Zero: no end
	Rollback bool          // lead back to an artifact of the channel's history
	Settle   time.Duration // wait for a rival's write. Zero: 2 s
}

// History returns the verified versions of a channel, the newest first.
func (w *Workspace) History(ctx context.Context, arg, name string) ([]ChannelVersion, error) {
	ref, err := remote.ParseReference(arg)
	if err != nil {
		return nil, err
	}
	c, err := w.openChannel(ref, name)
	if err != nil {
		return nil, err
	}
	return c.log(ctx)
}

// Promote writes the next version of a channel at a registry: a signed document that
// leads to the artifact, after every trust file found the evidence that it demands.
func (w *Workspace) Promote(ctx context.Context, arg string, s *Signer, opt PromoteOptions) (*ChannelVersion, error) {
	at, err := w.FindRemote(ctx, arg)
	if err != nil {
		return nil, err
	}
	if _, err := w.Judge(ctx, at, Claim{}); err != nil {
		return nil, err
	}
	c, err := w.openChannel(at.remote, opt.To)
	if err != nil {
		return nil, err
	}
	past, err := c.log(ctx)
	if err != nil && !hasCode(err, diag.NoChannel) {
		return nil, err
	}
	doc := ChannelDocument{Repository: c.repository, Channel: c.name, Version: 1, Digest: at.desc.Digest.String()}
	if len(past) > 0 {
		doc.Version, doc.Previous = past[0].Version+1, past[0].Manifest
		earlier := slices.ContainsFunc(past, func(v ChannelVersion) bool { return v.Digest == doc.Digest })
		doc.Rollback = earlier && past[0].Digest != doc.Digest
	}
	if doc.Rollback != opt.Rollback {
		return nil, fault(diag.UnsaidRollback, fmt.Sprintf("%s to %s: an older artifact of the channel: got --rollback=%t, want %t", arg, c.name, opt.Rollback, doc.Rollback), "")
	}
	if err := c.permits(ctx, at, s.Key.Public().KeyID(), &doc, past); err != nil {
		return nil, err
	}
	if err := doc.date(past, s.Options.Created, opt.Valid); err != nil {
		return nil, err
	}
	if err := w.recordable(ctx); err != nil {
		return nil, err
	}
	v, err := c.write(ctx, doc, s.Key, opt.Settle)
	w.Record(ctx, audit.Entry{Action: "promote", Ref: c.repository + ":" + c.name, Digest: doc.Digest, Keys: []string{s.Key.Public().KeyID()}, Result: Outcome(err)})
	return v, err
}

// date sets the times of a document. One that expires states when it was made, so that a
// clock before that time is noticed. The clock must not be before the version before.
func (d *ChannelDocument) date(past []ChannelVersion, created time.Time, valid time.Duration) error {
	now := time.Now()
	if !created.IsZero() {
		now = created
	}
	if len(past) > 0 {
		if t, err := time.Parse(time.RFC3339, past[0].Created); err == nil && t.After(now.Add(channelSkew)) {
			return fault(diag.ClockDiffers, fmt.Sprintf("%s %s version %d: made at %s, and the clock shows %s", d.Repository, d.Channel, past[0].Version, past[0].Created, now.UTC().Format(time.RFC3339)), "set the clock, then promote again")
		}
	}
	if !created.IsZero() || valid > 0 {
		d.Created = now.UTC().Format(time.RFC3339)
	}
	if valid > 0 {
		d.Expires = now.Add(valid).UTC().Format(time.RFC3339)
	}
	return nil
}

// permits checks the gates of the channel: who writes, the channel before, the evidence.
func (c *channel) permits(ctx context.Context, at *Located, key string, doc *ChannelDocument, past []ChannelVersion) error {
	for _, g := range c.gates {
		if err := g.Writes(c.repository, key); err != nil {
			return fault(diag.ChannelSigner, fmt.Sprintf("%s: %v (%s)", c.name, err, g.File), "")
		}
		if g.Channel.From != "" && !(doc.Rollback && led(past, doc.Digest)) {
			list, err := c.w.History(ctx, at.ref, g.Channel.From)
			if err != nil && !hasCode(err, diag.NoChannel) {
				return err
			}
			if !led(list, doc.Digest) {
				return fault(diag.NotPromoted, fmt.Sprintf("%s to %s: channel %s never led to %s", at.ref, c.name, g.Channel.From, doc.Digest), "")
			}
		}
		for i, e := range g.Channel.Evidence {
			typ, err := PredicateType(e.Type)
			if err != nil {
				return err
			}
			b, err := g.Evidence(i, c.w.say)
			if err != nil {
				return err
			}
			for _, p := range at.tree.Parts {
				check := func(a sign.Attestation) error { return checkEvidence(a, p.Descriptor) }
				if err := b.Require(ctx, at.src, c.repository, p.Descriptor, typ, check); err != nil {
					return fault(diag.PromotionRefused, fmt.Sprintf("%s to %s: %v", at.ref, c.name, err), "")
				}
			}
			doc.Evidence = append(doc.Evidence, typ)
		}
	}
	return nil
}

// write puts a document under the tag of its version. The tag must be free before, or have
// no valid document; when
// a rival's write has had time to arrive, it must still name this document. A write that
// took longer than that time counts as lost, so two promotions never win both.
func (c *channel) write(ctx context.Context, doc ChannelDocument, key *sign.PrivateKey, settle time.Duration) (*ChannelVersion, error) {
	if settle == 0 {
		settle = defaultSettle
	}
	client, err := c.w.client()
	if err != nil {
		return nil, err
	}
	desc, err := c.pack(ctx, doc, key)
	if err != nil {
		return nil, err
	}
	s, err := c.w.kept()
	if err != nil {
		return nil, err
	}
	if _, err := client.Push(ctx, s, desc, c.place+"@"+desc.Digest.String(), remote.PushOptions{}); err != nil {
		return nil, err
	}
	ref := c.place + ":" + c.tag(doc.Version)
	start := time.Now()
	junk := false
	if d, err := c.src.Current(ctx, ref); err == nil {
		_, err := c.read(ctx, ref, doc.Version, false)
		if junk = invalid(err); !junk {
			return nil, c.lost(doc, d.Digest)
		}
		c.w.say("warning: %s is replaced: %v", ref, err)
	} else if !errors.Is(err, errdef.ErrNotFound) {
		return nil, err
	}
	_, failed := client.Push(ctx, s, desc, ref, remote.PushOptions{Force: junk})
	late := time.Since(start) > settle
	timer := time.NewTimer(settle)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	now, err := c.src.Current(ctx, ref)
	switch {
	case err == nil && now.Digest != desc.Digest:
		return nil, c.lost(doc, now.Digest)
	case failed != nil:
		return nil, failed
	case err != nil:
		return nil, err
	case late:
		return nil, fault(diag.ChannelRace, fmt.Sprintf("%s %s version %d: writing took longer than %s", c.repository, c.name, doc.Version, settle), "")
	}
	v := &ChannelVersion{ChannelDocument: doc, Manifest: desc.Digest.String(), Key: key.Public().KeyID()}
	return v, c.remember(ctx, v, time.Now())
}

// lost returns the error of a promotion whose version another one took.
func (c *channel) lost(doc ChannelDocument, other digest.Digest) error {
	return fault(diag.ChannelRace, fmt.Sprintf("%s %s version %d: the registry has %s, written by another promotion", c.repository, c.name, doc.Version, other), "")
}

// pack stores the manifest of a signed document in the home.
func (c *channel) pack(ctx context.Context, doc ChannelDocument, key *sign.PrivateKey) (ocispec.Descriptor, error) {
	predicate, err := json.Marshal(doc)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	bundle, err := sign.SealStatement(ctx, key, digest.Digest(doc.Digest), sign.Attestation{PredicateType: channelType, Predicate: predicate})
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	config := ocispec.DescriptorEmptyJSON
	layer := content.NewDescriptorFromBytes(sign.BundleMediaType, bundle)
	manifest, err := json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: channelMedia,
		Config: ocispec.Descriptor{MediaType: config.MediaType, Digest: config.Digest, Size: config.Size}, Layers: []ocispec.Descriptor{layer},
	})
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	desc := content.NewDescriptorFromBytes(ocispec.MediaTypeImageManifest, manifest)
	s, err := c.w.kept()
	if err != nil {
		return desc, err
	}
	for _, part := range []struct {
		desc ocispec.Descriptor
		data []byte
	}{{layer, bundle}, {config, config.Data}, {desc, manifest}} {
		if err := s.Push(ctx, part.desc, bytes.NewReader(part.data)); err != nil && !errors.Is(err, errdef.ErrAlreadyExists) {
			return desc, err
		}
	}
	return desc, nil
}

// hasCode reports whether err is a diagnostic of the code.
func hasCode(err error, code diag.Code) bool {
	list, ok := diag.From(err)
	return ok && slices.ContainsFunc(list, func(d diag.Diagnostic) bool { return d.Code == code })
}
