package workspace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/builds/card"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/remote"
	"mm-abi.org/mm/registry/sign"
	"mm-abi.org/mm/workspace/trust"
)

// Overview describes one manifest of an artifact: its modules, the keys that released it
// and the evidence about it.
type Overview struct {
	Card     *card.Card
	Ref      string           // as the user wrote it
	Index    string           // digest of the index that lists the manifest; the manifest's own without one
	Files    int              // of the manifest
	Size     int64            // of all files, in bytes
	Assembly *builds.Assembly // nil: the artifact is a module
	Modules  []PartOverview
	Keys     []trust.Signer // trusted keys that released it
	Refusal  string         // why no trusted key did; "": one did
	Evidence Evidence
	Faults   diag.List // conflicts and conditions of the licenses together
}

// PartOverview is a module of an artifact.
type PartOverview struct {
	card.Module
	ABI     abi.Version    // "": unknown
	Core    string         // NAME@VERSION of the core that it was checked with; "": none
	Files   builds.Formats // shipped here
	Backend string         // engine that the graph asks for; "": the first that can
	Source  string         // where the lock found it; "": unknown
	Keys    []trust.Signer // trusted keys that released the module itself
	Stored  bool           // the module is in the store, so that Keys is complete
}

// Overview describes each manifest of an artifact.
func (w *Workspace) Overview(ctx context.Context, at *Located) ([]Overview, error) {
	if _, err := at.identify(ctx); err != nil {
		return nil, err
	}
	keys, refusal, err := w.releasers(ctx, at)
	if err != nil {
		return nil, err
	}
	var out []Overview
	for _, p := range at.tree.Parts {
		if at.target != "" && p.Target != "" && p.Target != at.target {
			continue
		}
		o := Overview{Ref: at.ref, Index: at.desc.Digest.String(), Files: len(p.Artifact.Layers), Size: p.Artifact.Size(), Keys: keys, Refusal: refusal}
		if o.Card, err = w.card(ctx, at, p); err != nil {
			return nil, err
		}
		if o.Evidence, err = w.evidence(ctx, at, p); err != nil {
			return nil, err
		}
		if _, o.Faults, err = licensedParts(ctx, at, p); err != nil {
			return nil, err
		}
		if err := w.overviewParts(ctx, at, p, &o); err != nil {
			return nil, err
		}
		out = append(out, o)
	}
	return out, nil
}

// releasers returns the trusted keys that released an artifact, or why none did.
func (w *Workspace) releasers(ctx context.Context, at *Located) ([]trust.Signer, string, error) {
	j, err := w.Judge(ctx, at, Claim{Measure: true})
	if list, ok := diag.From(err); sign.IsRefusal(err) || ok && list.Exit() == diag.ExitRefused {
		return nil, err.Error(), nil
	}
	if err != nil {
		return nil, "", err
	}
	return j.Keys, "", nil
}

// overviewParts sets the modules of a manifest.
func (w *Workspace) overviewParts(ctx context.Context, at *Located, p artifact.Part, o *Overview) error {
	c := &claims{ref: at.ref, reader: newLayerReader(at.src, p.Artifact)}
	d := &sources{}
	parts := map[string]builds.Part{}
	if _, ok := c.reader.layers[builds.AssemblyFile]; ok {
		var err error
		if d, err = c.sources(ctx); err != nil {
			return err
		}
		o.Assembly = d.assembly
		for _, part := range d.assembly.Parts() {
			parts[part.Name] = part
		}
	}
	for _, m := range o.Card.Modules {
		one := PartOverview{Module: m, Files: parts[m.Name].Files, Backend: parts[m.Name].Backend}
		if o.Assembly != nil && o.Assembly.HasCore() {
			one.Core = o.Assembly.Core.ID()
		}
		manifest, locked := d.manifests[m.Name], lockedPart(d.lock, m.Name)
		if o.Assembly == nil {
			var err error
			if manifest, err = c.reader.manifest(ctx, modules.FileName); err != nil {
				return err
			}
		}
		if manifest != nil {
			one.ABI = manifest.ABI
		}
		one.Source = locked.Source
		if err := w.partKeys(ctx, o, &one); err != nil {
			return err
		}
		o.Modules = append(o.Modules, one)
	}
	return nil
}

// lockedPart returns the entry of a module; the zero value without one.
func lockedPart(l *builds.Lock, name string) builds.Locked {
	if l != nil {
		for _, m := range l.Modules {
			if m.Name == name {
				return m
			}
		}
	}
	return builds.Locked{}
}

// partKeys sets the keys that released a module, if the store has it.
func (w *Workspace) partKeys(ctx context.Context, o *Overview, m *PartOverview) error {
	if m.Digest == o.Card.Digest {
		m.Stored, m.Keys = true, o.Keys
		return nil
	}
	if w.opt.Layout == "" && !w.hasStore() || m.Digest == "" {
		return nil
	}
	at, err := w.findStored(ctx, m.Digest)
	if errors.Is(err, errdef.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	m.Keys, _, err = w.releasers(ctx, at)
	m.Stored = err == nil
	return err
}

// Channel is a channel of a repository with its verified versions, the newest first.
type Channel struct {
	Repository string
	Name       string
	Versions   []ChannelVersion
	Fault      string // why the versions are refused; "": they are valid
}

// maxChannels bounds the channels of one repository.
const maxChannels = 64

// Channels returns the channels of a repository at a registry.
func (w *Workspace) Channels(ctx context.Context, arg string) ([]Channel, error) {
	ref, err := remote.ParseReference(arg)
	if err != nil {
		return nil, err
	}
	client, err := w.client()
	if err != nil {
		return nil, err
	}
	tags, err := client.Tags(ctx, ref.Place())
	if err != nil {
		return nil, err
	}
	names, err := boundedChannels(ref.Place(), tags)
	if err != nil {
		return nil, err
	}
	var out []Channel
	for _, name := range names {
		c := Channel{Repository: ref.Ref.Repository(), Name: name}
		if c.Versions, err = w.History(ctx, arg, name); err != nil {
			if _, ok := diag.From(err); !ok {
				return nil, err
			}
			c.Fault = err.Error()
		}
		out = append(out, c)
	}
	return out, nil
}

// boundedChannels returns the channels of a place, or an error if they are too many.
func boundedChannels(place string, tags []string) ([]string, error) {
	names := channelNames(tags)
	if len(names) > maxChannels {
		return nil, fault(diag.BadChannel, fmt.Sprintf("%s: got %d channels, limit %d", place, len(names), maxChannels), "")
	}
	return names, nil
}

// channelNames returns the channels that tags of versions name, sorted.
func channelNames(tags []string) (names []string) {
	for _, t := range tags {
		rest, ok := strings.CutPrefix(t, "channel-")
		at := strings.LastIndexByte(rest, '-')
		if ok && at > 0 && !slices.Contains(names, rest[:at]) && (&channel{name: rest[:at]}).number(t) > 0 {
			names = append(names, rest[:at])
		}
	}
	slices.Sort(names)
	return names
}

// Place is the repository with its host, if the artifact is at a registry; otherwise "".
func (l *Located) Place() string {
	if !l.Remote() {
		return ""
	}
	return l.remote.Place()
}
