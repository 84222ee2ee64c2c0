package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry/remote/errcode"
)

// blank returns a JSON object of n bytes for any descriptor.
type blank int

func (n blank) Fetch(context.Context, ocispec.Descriptor) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(n.bytes())), nil
}

func (n blank) bytes() []byte { return []byte("{" + strings.Repeat(" ", int(n)-2) + "}") }

func (n blank) descriptor() ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromBytes(n.bytes()), Size: int64(n)}
}

// Each limit accepts its value and refuses one more.
func TestLimits(t *testing.T) {
	request := &http.Request{URL: &url.URL{Scheme: "https"}}
	for name, check := range map[string]func(more int) bool{
		"maxRedirects": func(more int) bool {
			via := make([]*http.Request, maxRedirects-1+more)
			for i := range via {
				via[i] = request
			}
			return checkRedirect(request, via) == nil
		},
		"maxMediaType": func(more int) bool {
			return maybeBundle(ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, ArtifactType: bundleType + strings.Repeat("a", maxMediaType-len(bundleType)+more)})
		},
		"maxReferrer": func(more int) bool {
			return maybeBundle(ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, ArtifactType: bundleType, Size: int64(maxReferrer + more)})
		},
		"maxMemo": func(more int) bool {
			s := newSource(nil)
			s.bytes = maxMemo - 1
			d := digest.FromString("x")
			s.hold(ocispec.Descriptor{Digest: d}, make([]byte, 1+more))
			_, ok := s.lookup(d)
			return ok
		},
		"maxManifest": func(more int) bool {
			n := blank(maxManifest + more)
			_, err := readManifest(context.Background(), n, n.descriptor(), ErrHostile)
			return !errors.Is(err, ErrHostile)
		},
		"maxNodes": func(more int) bool {
			p := plan{seen: map[digest.Digest]int64{}, nodes: maxNodes - 2 + more}
			return p.add(context.Background(), blank(2), blank(2).descriptor(), filter{}, 0) == nil
		},
		"maxMetadata": func(more int) bool {
			p := plan{seen: map[digest.Digest]int64{}, bytes: int64(maxMetadata - 2 + more)}
			return p.add(context.Background(), blank(2), blank(2).descriptor(), filter{}, 0) == nil
		},
		"maxErrorBody": func(more int) bool {
			head := `{"errors":[{"code":"DENIED"}]`
			body := head + strings.Repeat(" ", maxErrorBody-len(head)-1+more) + "}"
			var e errcode.Errors
			return errors.As(readFailure(&http.Response{Request: &http.Request{URL: &url.URL{}}, Body: io.NopCloser(strings.NewReader(body))}), &e)
		},
		"maxRetryAfter": func(more int) bool {
			b := backoff{tries: 1, base: time.Millisecond, longest: maxRetryAfter}
			resp := &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{}, Request: request}
			resp.Header.Set("Retry-After", strconv.Itoa(int(maxRetryAfter/time.Second)+more))
			wait, err := b.Retry(0, resp, nil)
			return err == nil && wait >= 0
		},
	} {
		if !check(0) {
			t.Errorf("%s: refused", name)
		}
		if check(1) {
			t.Errorf("%s: one more accepted", name)
		}
	}
}

// A listing ends at its limits.
func TestListingLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: -short")
	}
	ctx := context.Background()
	c := newClient(t, Options{})
	for more, want := range []bool{true, false} {
		host := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"tags":["a"%s]}`, strings.Repeat(`,"a"`, maxListed-1+more))
		}))
		if tags, err := c.Tags(ctx, host+"/a/b"); (err == nil) != want {
			t.Errorf("maxListed+%d: %d tags, %v", more, len(tags), err)
		}

		var pages atomic.Int64
		host = serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if n := pages.Add(1); n < int64(maxPages+more) {
				w.Header().Set("Link", fmt.Sprintf(`</v2/a/b/tags/list?last=%d>; rel="next"`, n))
			}
			fmt.Fprint(w, `{"tags":["a"]}`)
		}))
		if _, err := c.Tags(ctx, host+"/a/b"); (err == nil) != want {
			t.Errorf("maxPages+%d: %v after %d pages", more, err, pages.Load())
		}

		// The page that reaches the limit is the last one.
		pages.Store(0)
		host = serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", ocispec.MediaTypeImageIndex)
			list, n := ocispec.Index{Manifests: []ocispec.Descriptor{}}, 1
			if pages.Add(1) == 1 {
				n = maxReferrers - 1 + more
				w.Header().Set("Link", "<"+r.URL.Path+`?last=a>; rel="next"`)
			}
			for range n {
				list.Manifests = append(list.Manifests, blank(2).descriptor())
			}
			if err := json.NewEncoder(w).Encode(list); err != nil {
				t.Error(err)
			}
		}))
		ref, err := ParseReference(host + "/a/b")
		if err != nil {
			t.Fatal(err)
		}
		found, err := c.repository(ref).referrers(ctx, blank(2).descriptor())
		if err != nil || len(found) != maxReferrers || (pages.Load() == 2) != want {
			t.Errorf("maxReferrers+%d: %d referrers on %d pages, %v", more, len(found), pages.Load(), err)
		}
	}
}

// A pull looks at maxLooked bundles and keeps maxKept of one manifest.
func TestBundleLimits(t *testing.T) {
	ctx := context.Background()
	there := openStore(t)
	a := newAssembly(t, there)
	main, err := newPlan(ctx, layout{there}, a.index, filter{})
	if err != nil {
		t.Fatal(err)
	}
	own, err := there.Referrers(ctx, a.index, "")
	if err != nil || len(own) != 1 {
		t.Fatal(own, err)
	}
	for limit, keep := range map[int]bool{maxLooked: false, maxKept: true} {
		for more := range 2 {
			var list []ocispec.Descriptor
			for range limit + more {
				list = append(list, own[0])
			}
			looked := 0
			if _, err := bundles(ctx, listing{layout{there}, a.index, list}, main, PullOptions{Keep: func(context.Context, content.Fetcher, ocispec.Descriptor, ocispec.Descriptor) (bool, error) {
				looked++
				return keep, nil
			}}); err != nil || looked != limit {
				t.Errorf("limit %d+%d: looked at %d bundles, %v", limit, more, looked, err)
			}
		}
	}
}

// A push considers the tags of maxSources other repositories, and offers
// maxMounts of them.
func TestMountLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: -short")
	}
	ctx := context.Background()
	src := openStore(t)
	many := pack(t, src, "many", layer(t, src, "many.gguf", "core", noise(1, 100)))
	blob := layer(t, src, "last.gguf", "core", noise(2, 100))
	last := pack(t, src, "last", blob)
	to, err := ParseReference("registry.example/team/to:1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	if err := src.Tag(ctx, last, "registry.example/team/z:1.0.0"); err != nil {
		t.Fatal(err)
	}
	for i := range maxSources {
		if i == maxSources-1 {
			if got := mountSources(ctx, src, to)[blob.Descriptor.Digest]; len(got) != 1 {
				t.Errorf("maxSources: found in %q", got)
			}
		}
		if err := src.Tag(ctx, many, fmt.Sprintf("registry.example/team/a%d:1.0.0", i)); err != nil {
			t.Fatal(err)
		}
	}
	if got := mountSources(ctx, src, to)[blob.Descriptor.Digest]; len(got) != 0 {
		t.Errorf("maxSources+1: found in %q", got)
	}

	for more := range 2 {
		var asked atomic.Int64
		h := inMemory(true)
		host := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && r.URL.Query().Get("from") != "" && r.URL.Query().Get("mount") == blob.Descriptor.Digest.String() {
				asked.Add(1)
				w.WriteHeader(http.StatusNotFound)
				return
			}
			r.URL.RawQuery = strings.TrimPrefix(r.URL.RawQuery, "mount=")
			h.ServeHTTP(w, r)
		}))
		var from []string
		for i := range maxMounts + more {
			from = append(from, fmt.Sprintf("team/from%d", i))
		}
		if _, err := newClient(t, Options{}).Push(ctx, src, last, host+"/team/to:1.0.0", PushOptions{MountFrom: from}); err != nil || asked.Load() != maxMounts {
			t.Errorf("maxMounts+%d: asked %d times, %v", more, asked.Load(), err)
		}
	}
}
