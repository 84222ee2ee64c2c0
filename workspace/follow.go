package workspace

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"oras.land/oras-go/v2/content"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/workspace/home"
)

// versionsFile records the highest verified version of each repository.
const versionsFile = "versions.json"

// Seen is the highest version of a repository that was verified with this home.
type Seen struct {
	Version string `json:"version"`
	Digest  string `json:"digest"`
}

// follow remembers the version of a verified artifact of a registry, and warns if a
// moving reference leads to a lower one than before: a registry can return old
// releases, whose signatures remain valid.
func (w *Workspace) follow(ctx context.Context, at *Located, j *Judgement) {
	v, err := abi.ParseVersion(j.Identity.Version)
	if !at.Remote() || len(j.Keys) == 0 || err != nil {
		return
	}
	all, err := home.ReadRecords[Seen](w.home, versionsFile)
	if err != nil {
		w.Warn(err)
		return
	}
	seen := all[at.repository]
	highest, err := abi.ParseVersion(seen.Version)
	lower := err == nil && abi.CompareVersions(v, highest) > 0 // the newest is first
	if lower && (at.ranged || at.moving()) {
		w.say("warning: %s is version %s, but version %s (%s) was released there before: the tag was moved back or removed, or the registry returns an old state; %s remembers it",
			at.ref, j.Identity.Version, seen.Version, seen.Digest, filepath.Join(w.home, versionsFile))
	}
	if err == nil && abi.CompareVersions(v, highest) >= 0 || home.CanWrite(w.home) != nil || w.homeless != nil {
		return
	}
	if err := home.ChangeRecords(ctx, w.home, versionsFile, func(all map[string]Seen) error {
		if now, err := abi.ParseVersion(all[at.repository].Version); err != nil || abi.CompareVersions(v, now) < 0 {
			all[at.repository] = Seen{Version: j.Identity.Version, Digest: j.Digest}
		}
		return nil
	}); err != nil {
		w.Warn(err)
	}
}

// moving reports whether the reference may have another meaning tomorrow: neither a
// digest nor a version.
func (l *Located) moving() bool {
	return l.now != nil && abi.TagMeaning(l.tag, l.identity.Version, l.identity.Target) == abi.MeansChannel
}

// siblings returns the targets of the build that a single target belongs to; nil if
// the artifact is complete.
func siblings(ctx context.Context, src content.Fetcher, t *artifact.Tree) ([]string, error) {
	if t.Index != nil || t.Parts[0].Artifact.Annotations[abi.AnnotationTarget] == "" {
		return nil, nil
	}
	a := t.Parts[0].Artifact
	c := &claims{reader: newLayerReader(src, a)}
	file := a.Name + ".graph.yaml"
	if c.reader.layers[file].Path == "" { // of an older version
		return nil, nil
	}
	data, err := c.document(ctx, file)
	if err != nil {
		return nil, err
	}
	g, list := builds.Parse(file, data)
	if list.Failed() || len(g.Exports) < 2 {
		return nil, list.Err()
	}
	return slices.Sorted(maps.Keys(g.Exports)), nil
}

// complete warns of a target that a registry returns under the name of a build of
// several: the target's signature is valid, but the publisher may have released more.
// Under strict trust it is refused.
func (w *Workspace) complete(ctx context.Context, at *Located, src content.Fetcher) error {
	target := at.identity.Target
	if !at.Remote() || at.now == nil || at.target != "" || target == "" || strings.HasSuffix(at.tag, "-"+target) {
		return nil
	}
	all, err := siblings(ctx, src, at.tree)
	if err != nil || all == nil {
		return err
	}
	detail := fmt.Sprintf("%s holds only target %s of a build for %s", at.ref, target, strings.Join(all, ", "))
	b, err := w.judges()
	if err != nil {
		return err
	}
	if b.Strict {
		return fault(diag.IdentityDiffers, detail, "use "+at.remote.Place()+":"+abi.TargetTag(at.identity.Version, target)+" for this target")
	}
	w.say("warning: %s", detail)
	return nil
}
