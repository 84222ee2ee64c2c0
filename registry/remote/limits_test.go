package remote

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

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
