package resolve

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content/memory"
	"oras.land/oras-go/v2/registry/remote/auth"

	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/remote"
)

func TestLimits(t *testing.T) {
	ctx := context.Background()
	for more := range 2 {
		l := artifact.Layer{Path: modules.FileName, Descriptor: ocispec.Descriptor{Digest: digest.FromString("x"), Size: int64(maxManifest + more)}}
		_, err := manifestOf(ctx, memory.New(), &artifact.Artifact{Layers: []artifact.Layer{l}}, "m")
		if strings.Contains(fmt.Sprint(err), "over the limit") != (more > 0) {
			t.Errorf("maxManifest+%d: %v", more, err)
		}

		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"tags":["0.0.0"`)
			for i := range maxTags - 1 + more {
				fmt.Fprintf(w, `,"1.0.%d"`, i)
			}
			fmt.Fprint(w, `]}`)
		}))
		defer srv.Close()
		client, err := remote.New(remote.Options{Credentials: func(context.Context, string) (auth.Credential, error) { return auth.EmptyCredential, nil }})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		r := &Registry{Client: client, Prefix: strings.TrimPrefix(srv.URL, "http://") + "/team"}
		found, err := r.Candidates(ctx, Query{Name: "m"})
		if err != nil || len(found) != maxTags || (found[maxTags-1].Version.String() == "0.0.0") != (more == 0) {
			t.Errorf("maxTags+%d: %d candidates, %v", more, len(found), err)
		}
	}
}
