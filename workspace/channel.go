package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/registry/remote"
	"mm-abi.org/mm/registry/sign"
	"mm-abi.org/mm/workspace/home"
	"mm-abi.org/mm/workspace/trust"
)

// The form of channel documents at a registry.
const (
	channelType     = "https://mm-abi.org/channel/v1"
	channelMedia    = "application/vnd.mm-abi.channel.v1+json"
	channelsFile    = "channels.json"
	channelSkew     = 5 * time.Minute
	maxChannelChain = 1000
	maxChannelJunk  = 20 // tags without a valid document above the newest version
)

// ChannelDocument is the signed content of one version of a channel.
type ChannelDocument struct {
	Repository string   `json:"repository"`
	Channel    string   `json:"channel"`
	Version    int      `json:"version"`            // 1, 2, …
	Digest     string   `json:"digest"`             // of the artifact
	Previous   string   `json:"previous,omitempty"` // manifest of the version before
	Created    string   `json:"created,omitempty"`  // RFC 3339
	Expires    string   `json:"expires,omitempty"`  // RFC 3339
	Rollback   bool     `json:"rollback,omitempty"`
	Evidence   []string `json:"evidence,omitempty"` // predicate types that were demanded
}

// ChannelVersion is a verified document.
type ChannelVersion struct {
	ChannelDocument
	Manifest string `json:"manifest"` // of the document
	Key      string `json:"key"`      // that signed it; "": not permitted to write the channel now
}

// String returns a line of the history.
func (v ChannelVersion) String() string {
	text := fmt.Sprintf("%s %d %s", v.Channel, v.Version, v.Digest)
	if v.Rollback {
		text += " rollback"
	}
	if v.Key == "" {
		text += " (its key is not permitted to write the channel now)"
	}
	return text
}

// channel is a channel of a repository at a registry.
type channel struct {
	w          *Workspace
	src        *remote.Source
	place      string // repository with its host
	repository string
	name       string
	gates      []trust.Gate
	named      bool // a trust file names it
}

// seenChannel is the newest version that the home has seen, and the latest time of the
// clock when it was read.
type seenChannel struct {
	Version  int    `json:"version"`
	Manifest string `json:"manifest"`
	Clock    string `json:"clock,omitempty"` // RFC 3339
}

// parseChannel parses the content of a document.
func parseChannel(data []byte) (d ChannelDocument, err error) {
	if err = json.Unmarshal(data, &d); err != nil {
		return ChannelDocument{}, err
	}
	return d, nil
}

func (w *Workspace) openChannel(ref remote.Reference, name string) (*channel, error) {
	b, err := w.judges()
	if err != nil {
		return nil, err
	}
	client, err := w.client()
	if err != nil {
		return nil, err
	}
	src, err := client.Source(ref.Place())
	if err != nil {
		return nil, err
	}
	c := &channel{w: w, src: src, place: ref.Place(), repository: ref.Ref.Repository(), name: name}
	c.gates, c.named, err = b.Gates(c.repository, name)
	return c, err
}

// key names the channel in the records of the home.
func (c *channel) key() string { return c.repository + "#" + c.name }

// tag returns the tag of a version, which is written once.
func (c *channel) tag(version int) string { return fmt.Sprintf("channel-%s-%06d", c.name, version) }

// number returns the version whose tag t is; 0 for another tag.
func (c *channel) number(t string) int {
	text, ok := strings.CutPrefix(t, "channel-"+c.name+"-")
	if n, err := strconv.Atoi(text); ok && err == nil && n > 0 && c.tag(n) == t {
		return n
	}
	return 0
}

// versions lists the versions at the registry, ascending.
func (c *channel) versions(ctx context.Context) ([]int, error) {
	client, err := c.w.client()
	if err != nil {
		return nil, err
	}
	tags, err := client.Tags(ctx, c.place)
	if err != nil {
		return nil, err
	}
	var list []int
	for _, t := range tags {
		if n := c.number(t); n > 0 {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return list, nil
}

// read reads and verifies one document by its tag or digest. If linked, a verified document
// states its digest, and the key is not required to be permitted now.
func (c *channel) read(ctx context.Context, ref string, version int, linked bool) (*ChannelVersion, error) {
	desc, err := c.src.Find(ctx, ref)
	if err != nil {
		return nil, err
	}
	var m ocispec.Manifest
	if err := c.fetch(ctx, desc, &m, nil); err != nil {
		return nil, err
	}
	if m.ArtifactType != channelMedia || len(m.Layers) != 1 || m.Layers[0].MediaType != sign.BundleMediaType {
		return nil, fault(diag.BadChannel, fmt.Sprintf("%s: got artifact type %q with %d layers, want %s with one bundle", ref, shorten(m.ArtifactType), len(m.Layers), channelMedia), "")
	}
	var bundle []byte
	if err := c.fetch(ctx, m.Layers[0], nil, &bundle); err != nil {
		return nil, err
	}
	v := &ChannelVersion{Manifest: desc.Digest.String()}
	about := func(a sign.Attestation) (digest.Digest, error) {
		var err error
		if v.ChannelDocument, err = parseChannel(a.Predicate); err != nil || a.PredicateType != channelType {
			return "", fault(diag.BadChannel, fmt.Sprintf("%s: statement of type %q: %v", ref, shorten(a.PredicateType), err), "")
		}
		return digest.Digest(v.Digest), nil
	}
	for _, g := range c.gates {
		a, err := g.Open(ctx, c.repository, bundle, about)
		if sign.IsRefusal(err) && linked {
			if err := sign.ReadStatement(bundle, about); err != nil {
				return nil, fault(diag.BadChannel, fmt.Sprintf("%s: %v", ref, err), "")
			}
			v.Key = ""
			break
		}
		if sign.IsRefusal(err) {
			return nil, fault(diag.ChannelSigner, fmt.Sprintf("%s: %v (%s)", ref, err, g.File), "")
		}
		if err != nil {
			return nil, err
		}
		v.Key = a.Signer.ID
	}
	return v, c.check(ref, version, v)
}

// fetch reads a small blob of the channel into JSON or bytes.
func (c *channel) fetch(ctx context.Context, desc ocispec.Descriptor, into *ocispec.Manifest, raw *[]byte) error {
	if desc.Size < 0 || desc.Size > maxSmall {
		return fault(diag.BadChannel, fmt.Sprintf("%s: got %d bytes, want at most %d", desc.Digest, desc.Size, maxSmall), "")
	}
	r, err := c.src.Fetch(ctx, desc)
	if errors.Is(err, errdef.ErrNotFound) {
		return fault(diag.BadChannel, fmt.Sprintf("%s: %v", desc.Digest, err), "")
	}
	if err != nil {
		return err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, desc.Size+1))
	if err != nil {
		return err
	}
	if desc.Digest.Validate() != nil || desc.Digest.Algorithm().FromBytes(data) != desc.Digest {
		return fault(diag.BadChannel, fmt.Sprintf("%s: other bytes than the digest", desc.Digest), "")
	}
	if raw != nil {
		*raw = data
		return nil
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fault(diag.BadChannel, fmt.Sprintf("%s: %v", desc.Digest, err), "")
	}
	return nil
}

// check compares a document with the place where it was found.
func (c *channel) check(ref string, version int, v *ChannelVersion) error {
	_, bad := digest.Parse(v.Digest)
	if v.Repository != c.repository || v.Channel != c.name || v.Version != version || bad != nil {
		return fault(diag.BadChannel, fmt.Sprintf("%s: got version %d of channel %s of %s, want version %d of %s of %s", ref, v.Version, shorten(v.Channel), shorten(v.Repository), version, c.name, c.repository), "")
	}
	if v.Version < 1 || (v.Version == 1) != (v.Previous == "") {
		return fault(diag.BadChannel, fmt.Sprintf("%s: version %d with previous %q", ref, v.Version, shorten(v.Previous)), "")
	}
	for _, when := range []string{v.Created, v.Expires} {
		if _, err := time.Parse(time.RFC3339, when); when != "" && err != nil {
			return fault(diag.BadChannel, fmt.Sprintf("%s: %v", ref, err), "")
		}
	}
	return nil
}

// before reads the version before v, by the digest that v names.
func (c *channel) before(ctx context.Context, v *ChannelVersion) (*ChannelVersion, error) {
	p, err := c.read(ctx, c.place+"@"+v.Previous, v.Version-1, true)
	if err != nil {
		return nil, err
	}
	tagged, err := c.src.Current(ctx, c.place+":"+c.tag(p.Version))
	if err == nil && tagged.Digest.String() != p.Manifest {
		return nil, fault(diag.ChannelForked, fmt.Sprintf("%s %s: version %d is %s, and version %d names %s before it", c.repository, c.name, p.Version, tagged.Digest, v.Version, p.Manifest), "")
	}
	return p, nil
}

// head returns the newest document; it must continue the versions that the home has seen.
func (c *channel) head(ctx context.Context, now time.Time) (*ChannelVersion, error) {
	v, err := c.newest(ctx)
	if err != nil {
		return nil, err
	}
	if t, err := time.Parse(time.RFC3339, v.Created); err == nil && t.After(now.Add(channelSkew)) {
		return nil, fault(diag.ClockDiffers, fmt.Sprintf("%s %s version %d: made at %s, and the clock shows %s", c.repository, c.name, v.Version, v.Created, now.UTC().Format(time.RFC3339)), "")
	}
	if t, err := time.Parse(time.RFC3339, v.Expires); err == nil && now.After(t) {
		return nil, fault(diag.ChannelExpired, fmt.Sprintf("%s %s version %d: expired at %s, and the clock shows %s", c.repository, c.name, v.Version, v.Expires, now.UTC().Format(time.RFC3339)), "")
	}
	if err := c.clock(v, now); err != nil {
		return nil, err
	}
	return v, c.remember(ctx, v, now)
}

// clock compares the clock with its latest time when the channel was read: a clock that was
// set back makes an expired document look valid. A document without an end is only warned
// of.
func (c *channel) clock(v *ChannelVersion, now time.Time) error {
	records, err := home.ReadRecords[seenChannel](c.w.home, channelsFile)
	if err != nil {
		return err
	}
	t, err := time.Parse(time.RFC3339, records[c.key()].Clock)
	if err != nil || !t.After(now.Add(channelSkew)) {
		return nil
	}
	detail := fmt.Sprintf("%s %s version %d: read at %s before, and the clock shows %s", c.repository, c.name, v.Version, t.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	if v.Expires == "" {
		c.w.say("warning: %s", detail)
		return nil
	}
	return fault(diag.ClockDiffers, detail, "set the clock; if it was ahead before, remove the channel from "+channelsFile+" in MM_HOME")
}

// newest returns the newest document whatever its age.
func (c *channel) newest(ctx context.Context) (*ChannelVersion, error) {
	all, err := c.versions(ctx)
	if err != nil {
		return nil, err
	}
	records, err := home.ReadRecords[seenChannel](c.w.home, channelsFile)
	if err != nil {
		return nil, err
	}
	seen := records[c.key()]
	v, junk, err := c.newestOf(ctx, all)
	if err != nil {
		return nil, err
	}
	switch {
	case v == nil && seen.Version == 0 && junk != nil:
		return nil, junk
	case v == nil && seen.Version == 0:
		return nil, fault(diag.NoChannel, fmt.Sprintf("%s has no channel %s", c.repository, c.name), "")
	case v == nil || v.Version < seen.Version:
		got := 0
		if v != nil {
			got = v.Version
		}
		return nil, fault(diag.ChannelRollback, fmt.Sprintf("%s %s: got version %d, want %d or newer", c.repository, c.name, got, seen.Version), "")
	}
	return v, c.continues(ctx, v, seen)
}

// newestOf returns the newest of the versions whose document is valid, or nil. The tags
// above it that have no valid document are reported and ignored, as everybody who can
// write to the repository can make one; the first of their faults is returned.
func (c *channel) newestOf(ctx context.Context, versions []int) (v *ChannelVersion, junk, err error) {
	for i, n := range slices.Backward(versions) {
		if i < len(versions)-1-maxChannelJunk {
			return nil, nil, fault(diag.BadChannel, fmt.Sprintf("%s %s: more than %d invalid documents above version %d", c.repository, c.name, maxChannelJunk, n), "delete their tags")
		}
		ref := c.place + ":" + c.tag(n)
		v, err := c.read(ctx, ref, n, false)
		if !invalid(err) {
			return v, junk, err
		}
		c.w.say("warning: %s is ignored: %v", ref, err)
		if junk == nil {
			junk = err
		}
	}
	return nil, junk, nil
}

// invalid reports whether a tag has no document of the channel by a permitted key.
func invalid(err error) bool {
	return hasCode(err, diag.BadChannel) || hasCode(err, diag.ChannelSigner)
}

// continues checks that the versions before v lead to the one that the home has seen.
func (c *channel) continues(ctx context.Context, v *ChannelVersion, seen seenChannel) error {
	if seen.Version == 0 {
		return nil
	}
	list, err := chain(v, seen.Version, func(v *ChannelVersion) (*ChannelVersion, error) { return c.before(ctx, v) })
	if err != nil {
		return fmt.Errorf("%s %s: %w", c.repository, c.name, err)
	}
	if last := list[len(list)-1]; last.Manifest != seen.Manifest {
		return fault(diag.ChannelForked, fmt.Sprintf("%s %s version %d: got %s, want %s as before", c.repository, c.name, seen.Version, last.Manifest, seen.Manifest), "")
	}
	return nil
}

// chain returns v and the versions before it, down to the number last.
func chain(v *ChannelVersion, last int, before func(*ChannelVersion) (*ChannelVersion, error)) ([]ChannelVersion, error) {
	if v.Version-last > maxChannelChain {
		return nil, fault(diag.BadChannel, fmt.Sprintf("version %d after %d: limit %d versions later", v.Version, last, maxChannelChain), "remove the channel from "+channelsFile+" in MM_HOME to trust the version anew")
	}
	list := []ChannelVersion{*v}
	for v.Version > last {
		var err error
		if v, err = before(v); err != nil {
			return nil, err
		}
		list = append(list, *v)
	}
	return list, nil
}

// remember records the newest version and the latest time of the clock.
func (c *channel) remember(ctx context.Context, v *ChannelVersion, now time.Time) error {
	if home.CanWrite(c.w.home) != nil || c.w.homeless != nil {
		return nil
	}
	return home.ChangeRecords(ctx, c.w.home, channelsFile, func(all map[string]seenChannel) error {
		seen := all[c.key()]
		if seen.Version < v.Version {
			seen.Version, seen.Manifest = v.Version, v.Manifest
		}
		if t, err := time.Parse(time.RFC3339, seen.Clock); err != nil || now.After(t) {
			seen.Clock = now.UTC().Format(time.RFC3339)
		}
		all[c.key()] = seen
		return nil
	})
}

// latest returns the newest document. If the policy no longer permits its key, the
// document must be that which the home verified before: another key can then continue the
// channel.
func (c *channel) latest(ctx context.Context) (*ChannelVersion, error) {
	v, err := c.newest(ctx)
	if !hasCode(err, diag.ChannelRollback) {
		return v, err
	}
	records, unread := home.ReadRecords[seenChannel](c.w.home, channelsFile)
	if unread != nil {
		return nil, unread
	}
	seen := records[c.key()]
	if d, absent := c.src.Current(ctx, c.place+":"+c.tag(seen.Version)); absent != nil || d.Digest.String() != seen.Manifest {
		return nil, err
	}
	return c.read(ctx, c.place+"@"+seen.Manifest, seen.Version, true)
}

// led reports whether a version by a permitted key leads to an artifact.
func led(list []ChannelVersion, digest string) bool {
	return slices.ContainsFunc(list, func(v ChannelVersion) bool { return v.Digest == digest && v.Key != "" })
}

// log returns every version, the newest first.
func (c *channel) log(ctx context.Context) ([]ChannelVersion, error) {
	v, err := c.latest(ctx)
	if err != nil {
		return nil, err
	}
	list, err := chain(v, 1, func(v *ChannelVersion) (*ChannelVersion, error) { return c.before(ctx, v) })
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", c.repository, c.name, err)
	}
	return list, nil
}

// findChannel resolves a tag that a trust file or the home's record names as a channel;
// it returns nil for other references.
func (w *Workspace) findChannel(ctx context.Context, arg string, ref remote.Reference) (*Located, error) {
	if ref.Ref.Tag == "" || ref.Ref.Digest != "" {
		return nil, nil
	}
	c, err := w.openChannel(ref, ref.Ref.Tag)
	if err != nil {
		return nil, err
	}
	records, err := home.ReadRecords[seenChannel](w.home, channelsFile)
	if err != nil {
		return nil, err
	}
	if _, seen := records[c.key()]; !seen && !c.named {
		return nil, nil
	}
	resolve := func(ctx context.Context) (ocispec.Descriptor, error) {
		v, err := c.head(ctx, time.Now())
		if err != nil {
			return ocispec.Descriptor{}, err
		}
		return c.src.Find(ctx, c.place+"@"+v.Digest)
	}
	desc, err := resolve(ctx)
	if err != nil {
		return nil, err
	}
	return &Located{ref: arg, desc: desc, src: c.src, remote: ref, repository: c.repository, name: ref.Ref.Name, tag: ref.Ref.Tag, now: resolve}, nil
}
