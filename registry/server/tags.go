package server

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/registry"
)

// tags returns the repository's tags, sorted.
func (req *request) tags() ([]registry.Tag, error) {
	all, err := req.store.RepoTags(req.r.Context(), req.repo)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(t registry.Tag) bool {
		tag, ok := strings.CutPrefix(t.Ref, req.repo+":")
		return !ok || !tagPattern().MatchString(tag)
	}), nil
}

// tagList lists the tags (distribution-spec, Listing Tags).
func (req *request) tagList() error {
	tags, err := req.tags()
	if err != nil {
		return err
	}
	if len(tags) == 0 {
		there, err := req.store.HasRepo(req.r.Context(), req.repo)
		if err != nil {
			return err
		}
		if !there {
			return fault(http.StatusNotFound, "NAME_UNKNOWN", "no repository %s", req.repo)
		}
	}
	names := []string{}
	for _, t := range tags {
		names = append(names, strings.TrimPrefix(t.Ref, req.repo+":"))
	}
	names, err = req.page(names)
	if err != nil {
		return err
	}
	return req.json("application/json", map[string]any{"name": req.repo, "tags": names})
}

// catalog lists the repositories, in pages as tags are.
func (req *request) catalog() error {
	repos, err := req.store.Repos(req.r.Context())
	if err != nil {
		return err
	}
	if repos, err = req.page(append([]string{}, repos...)); err != nil {
		return err
	}
	return req.json("application/json", map[string]any{"repositories": repos})
}

// page returns the sorted names that n and last select, and links to the rest.
func (req *request) page(names []string) ([]string, error) {
	query := req.r.URL.Query()
	if last := query.Get("last"); last != "" {
		at, found := slices.BinarySearch(names, last)
		if found {
			at++
		}
		names = names[at:]
	}
	if text := query.Get("n"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return nil, fault(http.StatusBadRequest, "UNSUPPORTED", "invalid count n=%q", clip(text))
		}
		if n < len(names) {
			names = names[:n]
			if n > 0 {
				next := url.URL{Path: req.r.URL.Path, RawQuery: url.Values{"n": {text}, "last": {names[n-1]}}.Encode()}
				req.w.Header().Set("Link", "<"+next.String()+`>; rel="next"`)
			}
		}
	}
	return names, nil
}

// maxListing is the approximate size of a page of referrers. Clients accept at
// most 4 MiB.
const maxListing = 2 << 20

// referrers lists the manifests that point to a subject (Listing Referrers).
func (req *request) referrers() error {
	d, err := digestOf(req.arg)
	if err != nil {
		return err
	}
	ctx := req.r.Context()
	artifactType := req.r.URL.Query().Get("artifactType")
	all, err := req.store.Referrers(ctx, ocispec.Descriptor{Digest: d}, artifactType)
	if err != nil {
		return err
	}
	list := ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{}}
	last, size := req.r.URL.Query().Get("last"), 0
	for _, desc := range all {
		if desc.Digest.String() <= last {
			continue
		}
		_, ok, err := req.store.Shows(ctx, req.repo, desc.Digest)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if size > maxListing {
			query := req.r.URL.Query()
			query.Set("last", list.Manifests[len(list.Manifests)-1].Digest.String())
			next := url.URL{Path: req.r.URL.Path, RawQuery: query.Encode()}
			req.w.Header().Set("Link", "<"+next.String()+`>; rel="next"`)
			break
		}
		list.Manifests = append(list.Manifests, desc)
		size += 256
		for key, value := range desc.Annotations {
			size += len(key) + len(value)
		}
	}
	if artifactType != "" {
		req.w.Header().Set("OCI-Filters-Applied", "artifactType")
	}
	return req.json(ocispec.MediaTypeImageIndex, list)
}

// json answers with v.
func (req *request) json(mediaType string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	req.w.Header().Set("Content-Type", mediaType)
	req.w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	if req.r.Method != http.MethodHead {
		req.w.Write(data)
	}
	return nil
}
