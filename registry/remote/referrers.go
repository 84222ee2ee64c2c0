package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/auth"

	"mm-abi.org/mm/registry"
)

// listTries is how often a pushed referrer is looked for in the registry's
// listing.
const listTries = 4

// referrersIn collects the referrers of main's manifests in the store, and
// their referrers.
func referrersIn(ctx context.Context, src *registry.Store, main *plan, depth int) (*plan, error) {
	found := &plan{seen: map[digest.Digest]int64{}, fault: errUnsendable}
	for _, m := range main.manifests {
		list, err := src.Referrers(ctx, m.desc, "")
		if err != nil {
			return nil, fmt.Errorf("listing the referrers of %s: %w", m.desc.Digest, err)
		}
		for _, d := range list {
			if _, inside := main.seen[d.Digest]; inside {
				continue
			}
			if err := found.add(ctx, src, d, filter{}, 0); err != nil {
				return nil, err
			}
		}
	}
	if len(found.manifests) == 0 || depth == maxNesting {
		return found, nil
	}
	more, err := referrersIn(ctx, src, found, depth+1)
	if err != nil {
		return nil, err
	}
	found.manifests = append(found.manifests, more.manifests...)
	found.blobs = append(found.blobs, more.blobs...)
	return found, nil
}

// sendReferrers sends the missing referrers, which the registry does not list,
// until it does: without a referrers API, two concurrent clients may overwrite
// each other's list.
func (p *push) sendReferrers(ctx context.Context, referring *plan, missing []manifest) (err error) {
	for tries := 0; len(missing) > 0; tries++ {
		if tries == listTries {
			return fmt.Errorf("the registry does not list %s among the referrers of %s", missing[0].desc.Digest, missing[0].subject.Digest)
		}
		if tries > 0 {
			if err := sleep(ctx, p.c.backoff.wait(tries-1)); err != nil {
				return err
			}
		} else if err := p.sendParts(ctx, referring); err != nil {
			return err
		}
		// One list for all referrers of a subject: an immutable tag is put once.
		tagged := map[digest.Digest][]manifest{}
		for _, m := range missing {
			listed, err := p.sendReferrer(ctx, m)
			if err != nil {
				return fmt.Errorf("referrer %s: %w", m.desc.Digest, err)
			}
			if !listed {
				tagged[m.subject.Digest] = append(tagged[m.subject.Digest], m)
			}
		}
		for _, subject := range slices.Sorted(maps.Keys(tagged)) {
			if err := p.r.addReferrers(ctx, subject, tagged[subject]); err != nil {
				return fmt.Errorf("referrers of %s: %w", subject, err)
			}
		}
		if missing, err = p.unlisted(ctx, missing); err != nil {
			return err
		}
	}
	return nil
}

// sendReferrer sends a manifest with a subject and reports whether the registry
// lists it; without a referrers API, the list is under the subject's tag.
func (p *push) sendReferrer(ctx context.Context, m manifest) (listed bool, err error) {
	processed, err := p.put(ctx, m, m.desc.Digest.String())
	if processed {
		p.r.api.Store(apiYes)
	}
	return processed || p.r.api.Load() == apiYes, err
}

// sendParts sends the blobs and manifests below referrers.
func (p *push) sendParts(ctx context.Context, referring *plan) error {
	if err := p.sendBlobs(ctx, referring.blobs, nil); err != nil {
		return err
	}
	for _, m := range referring.manifests {
		if m.subject != nil {
			continue
		}
		if err := p.sendManifest(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// unlisted returns the referrers that the registry does not list.
func (p *push) unlisted(ctx context.Context, referring []manifest) ([]manifest, error) {
	listed := map[digest.Digest]map[digest.Digest]bool{} // by subject
	var missing []manifest
	for _, m := range referring {
		if m.subject == nil {
			continue // part of a referring index
		}
		if listed[m.subject.Digest] == nil {
			list, err := p.r.referrers(ctx, *m.subject)
			if err != nil && !errors.As(err, new(*unlistedError)) {
				return nil, err
			}
			listed[m.subject.Digest] = map[digest.Digest]bool{}
			for _, d := range list {
				listed[m.subject.Digest][d.Digest] = true
			}
		}
		if !listed[m.subject.Digest][m.desc.Digest] {
			missing = append(missing, m)
		}
	}
	return missing, nil
}

// errEnough stops a listing.
var errEnough = errors.New("enough")

// clip copies a media type, so that its page can be freed. A too long one
// stays too long.
func clip(s string) string { return strings.Clone(s[:min(len(s), maxMediaType+1)]) }

// referrers lists the referrers of desc, bounded. A missing repository or
// manifest has none.
func (r *repository) referrers(ctx context.Context, desc ocispec.Descriptor) ([]ocispec.Descriptor, error) {
	var found []ocispec.Descriptor
	err := r.Referrers(ctx, desc, "", func(page []ocispec.Descriptor) error {
		for _, d := range page {
			// Annotations repeated in a listing are not worth their memory.
			found = append(found, ocispec.Descriptor{MediaType: clip(d.MediaType), Digest: d.Digest, Size: d.Size, ArtifactType: clip(d.ArtifactType)})
		}
		if len(found) >= maxReferrers {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, fmt.Errorf("listing the referrers of %s: %w", desc.Digest, err)
	}
	return found, nil
}

// States of a registry's referrers API.
const (
	apiUnentries int32 = iota
	apiYes
	apiNo
)

// Referrers lists the manifests that refer to desc, page by page. A registry
// that answers anything but a list has no referrers API (distribution-spec,
// Unavailable Referrers API): the list is then under the subject's tag.
func (r *repository) Referrers(ctx context.Context, desc ocispec.Descriptor, artifactType string, fn func(page []ocispec.Descriptor) error) error {
	page := func(list []ocispec.Descriptor) error {
		if artifactType != "" {
			list = slices.DeleteFunc(list, func(d ocispec.Descriptor) bool { return d.ArtifactType != artifactType })
		}
		return fn(list)
	}
	var refused error
	if r.api.Load() != apiNo {
		listed, err := r.referrersAPI(ctx, desc, page)
		if listed || err == nil || status(err) == 0 && !errors.As(err, new(*OddError)) && !errors.Is(err, auth.ErrBasicCredentialNotFound) {
			return err
		}
		refused = err
		if status(err) != http.StatusNotFound { // which may mean the repository
			r.without(err)
		}
	}
	_, data, err := r.getManifest(ctx, referrersTag(desc.Digest))
	if errors.Is(err, errdef.ErrNotFound) {
		if busy(status(refused)) {
			return &unlistedError{referrersTag(desc.Digest), refused}
		}
		return nil
	}
	if err != nil {
		return err
	}
	var index ocispec.Index
	if err := json.Unmarshal(data, &index); err != nil {
		return &OddError{Host: r.Reference.Host(), Request: "GET " + r.url("manifests/"+referrersTag(desc.Digest)), Answer: "not an index: " + err.Error()}
	}
	return page(index.Manifests)
}

// unlistedError reports that neither the referrers API nor a tag has a list,
// while the API's answer may pass: whether there are referrers is unentries.
type unlistedError struct {
	tag string
	err error
}

func (e *unlistedError) Error() string {
	return fmt.Sprintf("%v, and there is no list under the tag %s", e.err, e.tag)
}

func (e *unlistedError) Unwrap() error { return e.err }

// without records that the referrers API is missing, and notifies the user once.
func (r *repository) without(why error) {
	if _, before := r.c.listless.LoadOrStore(r.Reference.Host(), true); r.api.Swap(apiNo) != apiNo && !before {
		r.c.warn("%s has no referrers API (%s): signatures are kept under tags sha256-…", r.Reference.Host(), reason(why))
	}
}

// reason is a short form of an answer.
func reason(err error) string {
	var o *OddError
	if errors.As(err, &o) {
		return o.Answer
	}
	if code := status(err); code != 0 {
		return fmt.Sprintf("it answers %d", code)
	}
	return "it asks for a login"
}

// referrersAPI lists by the referrers API. listed reports that the first page
// was a list.
func (r *repository) referrersAPI(ctx context.Context, desc ocispec.Descriptor, fn func([]ocispec.Descriptor) error) (listed bool, err error) {
	err = r.pages(ctx, referrersPart+desc.Digest.String(), ocispec.MediaTypeImageIndex, func(resp *http.Response, data []byte) error {
		var index struct {
			Manifests *[]ocispec.Descriptor `json:"manifests"`
		}
		if err := json.Unmarshal(data, &index); err != nil || index.Manifests == nil {
			return odd(resp, "%s", notJSON(resp.Header, data))
		}
		listed = true
		r.api.Store(apiYes)
		return fn(*index.Manifests)
	})
	return listed, err
}

// referrersPart is the path of the referrers API within a repository.
const referrersPart = "referrers/"

// referrersTag is the tag of the list of referrers without a referrers API.
func referrersTag(d digest.Digest) string { return d.Algorithm().String() + "-" + d.Encoded() }

// OlderTag returns the tag under which cosign before version 3 stored statements about
// a manifest, if the repository has it; "" if not. The kind is sig or att.
func (r *repository) OlderTag(ctx context.Context, subject digest.Digest, kind string) (string, error) {
	tag := referrersTag(subject) + "." + kind
	_, _, err := r.getManifest(ctx, tag)
	if errors.Is(err, errdef.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return tag, nil
}

// addReferrers adds manifests to the list under their subject's tag.
func (r *repository) addReferrers(ctx context.Context, subject digest.Digest, manifests []manifest) error {
	tag := referrersTag(subject)
	desc, data, err := r.getManifest(ctx, tag)
	exists := err == nil
	if err != nil && !errors.Is(err, errdef.ErrNotFound) {
		return err
	}
	index := ocispec.Index{Manifests: []ocispec.Descriptor{}}
	if exists {
		if err := json.Unmarshal(data, &index); err != nil {
			return fmt.Errorf("tag %s: not an index: %w", tag, err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// A registry may not show yet what this process has put there.
	entries := slices.Clone(r.listed[subject])
	for _, m := range manifests {
		entries = append(entries, m.entry())
	}
	index.Manifests = append(index.Manifests, entries...)
	slices.SortFunc(index.Manifests, func(a, b ocispec.Descriptor) int { return strings.Compare(string(a.Digest), string(b.Digest)) })
	index.Manifests = slices.CompactFunc(index.Manifests, func(a, b ocispec.Descriptor) bool { return a.Digest == b.Digest })
	index.SchemaVersion, index.MediaType = 2, ocispec.MediaTypeImageIndex
	if data, err = json.Marshal(index); err != nil {
		return err
	}
	now := ocispec.Descriptor{MediaType: index.MediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
	if exists && now.Digest == desc.Digest {
		return nil
	}
	if _, err := r.putManifest(ctx, now, data, tag); err != nil {
		return r.fixedTag(tag, exists, err)
	}
	r.listed[subject] = entries
	return nil
}

// entry is m in a list of referrers.
func (m manifest) entry() ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: m.desc.MediaType, Digest: m.desc.Digest, Size: m.desc.Size, ArtifactType: m.referrerType(), Annotations: m.annotations}
}

func (m manifest) referrerType() string {
	if m.artifactType == "" && m.config != nil {
		return m.config.MediaType
	}
	return m.artifactType
}

// ImmutableError reports a list of referrers that cannot grow: the registry has
// no referrers API and does not let a tag move.
type ImmutableError struct {
	Host, Tag string
	Err       error
}

// Error names the registry and the tag.
func (e *ImmutableError) Error() string {
	return fmt.Sprintf("%s has no referrers API and does not let the tag %s move, so that no second signature can be added: %v", e.Host, e.Tag, e.Err)
}

// Unwrap returns the registry's answer.
func (e *ImmutableError) Unwrap() error { return e.Err }

// Hint returns a way out.
func (e *ImmutableError) Hint() string {
	return "exempt tags that match sha256-* from immutability, or sign with all keys before the first push"
}

// fixedTag explains a refused move of an existing tag.
func (r *repository) fixedTag(tag string, exists bool, err error) error {
	switch code := status(err); {
	case exists && code >= 400 && code < 500 && !busy(code) && code != http.StatusUnauthorized && code != http.StatusNotFound:
		return &ImmutableError{Host: r.Reference.Host(), Tag: tag, Err: err}
	}
	return fmt.Errorf("tag %s: %w", tag, err)
}

// Predecessors lists the referrers of desc.
func (r *repository) Predecessors(ctx context.Context, desc ocispec.Descriptor) ([]ocispec.Descriptor, error) {
	var all []ocispec.Descriptor
	err := r.Referrers(ctx, desc, "", func(page []ocispec.Descriptor) error {
		all = append(all, page...)
		return nil
	})
	return all, err
}
