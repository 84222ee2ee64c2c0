package remote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/registrytest"
)

// quirkChunk is the chunk of the tests over profiles.
const quirkChunk = 256 << 10

// patience is how long a test over a profile may take.
const patience = 10 * time.Second

// quirkTest is one command against one profile.
type quirkTest struct {
	s      *registrytest.Registry
	host   string
	c      *Client
	src    *registry.Store
	a      assembly
	warned []string
}

func newQuirkTest(t *testing.T, p registrytest.Profile) *quirkTest {
	q := &quirkTest{s: registrytest.New(), src: openStore(t)}
	q.s.Quirks = p.Quirks
	q.host = serve(t, q.s)
	q.a = newAssembly(t, q.src)
	q.c = newClient(t, Options{Chunk: quirkChunk, Parallel: 1, Progress: func(e Event) {
		if e.Kind == Warned {
			q.warned = append(q.warned, e.Err.Error())
		}
	}})
	return q
}

func (q *quirkTest) ref() string { return q.host + "/team/p-lite:0.1.0" }

func (q *quirkTest) push(ctx context.Context) error {
	also := []registry.Tag{{Ref: "0.1.0-laptop", Descriptor: q.a.laptop}, {Ref: "0.1.0-mobile", Descriptor: q.a.mobile}}
	for range 2 { // and again, when everything is there
		report, err := q.c.Push(ctx, q.src, q.a.index, q.ref(), PushOptions{Also: also})
		if err != nil || len(report.Tags) != 3 {
			return fmt.Errorf("%+v: %w", report, err)
		}
	}
	return nil
}

// quirkCommands are the commands that every profile passes, in this order.
var quirkCommands = []string{"push", "verify", "pull", "lock", "sign", "gc"}

func (q *quirkTest) run(ctx context.Context, t *testing.T, command string) error {
	switch command {
	case "push":
		return q.push(ctx)
	case "verify":
		return q.verify(ctx, t)
	case "pull":
		dst := openStore(t)
		got, report, err := q.c.Pull(ctx, q.ref(), dst, PullOptions{Verifier: q.a.verifier(t)})
		if err != nil || got.Digest != q.a.index.Digest || len(report.SignedBy) != 1 {
			return fmt.Errorf("%s, %+v: %w", got.Digest, report, err)
		}
		whole(t, dst, got)
		return nil
	case "lock":
		tags, err := q.c.Tags(ctx, q.host+"/team/p-lite")
		want := []string{"0.1.0", "0.1.0-laptop", "0.1.0-mobile"}
		for range q.s.Lag { // a late listing looks complete
			tags, err = q.c.Tags(ctx, q.host+"/team/p-lite")
		}
		if rest := slices.DeleteFunc(tags, func(t string) bool { return slices.Contains(q.s.GhostTags, t) }); err != nil || !slices.Equal(rest, want) {
			return fmt.Errorf("%q: %w", tags, err)
		}
		return nil
	case "sign":
		return q.sign(ctx, t)
	case "gc":
		dst := openStore(t)
		if _, _, err := q.c.Pull(ctx, q.ref(), dst, PullOptions{}); err != nil {
			return err
		}
		if _, err := dst.GC(ctx, registry.GCOptions{}); err != nil {
			return err
		}
		_, err := q.a.verifier(t).Verify(ctx, dst, q.host+"/team/p-lite", q.a.index)
		return err
	}
	return fmt.Errorf("unknown command %s", command)
}

func (q *quirkTest) verify(ctx context.Context, t *testing.T) error {
	src, err := q.c.Source(q.host + "/team/p-lite")
	if err != nil {
		return err
	}
	for range 2 { // a listing may be late
		var desc ocispec.Descriptor
		if desc, err = src.Find(ctx, q.ref()); err == nil {
			_, err = q.a.verifier(t).Verify(ctx, src, q.host+"/team/p-lite", desc)
		}
		if err == nil {
			return nil
		}
	}
	return err
}

// sign adds a second signature, and pushes it.
func (q *quirkTest) sign(ctx context.Context, t *testing.T) error {
	if _, err := signWith(t, q.src, q.a.laptop); err != nil {
		return err
	}
	if err := q.push(ctx); err != nil {
		return err
	}
	list, err := newClient(t, Options{}).Referrers(ctx, q.host+"/team/p-lite", q.a.laptop, "")
	if err != nil || len(list) != 2 {
		return fmt.Errorf("%d signatures: %w", len(list), err)
	}
	return nil
}

// refusedCommands are the commands that a profile cannot pass, with
// the type of the error.
var refusedCommands = map[string]any{
	"nexus-cut lock":      new(*OddError),
	"immutable-tags sign": new(*ImmutableError),
}

// Every command passes every registry.
func TestQuirks(t *testing.T) {
	for _, p := range registrytest.Profiles(quirkChunk) {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			ctx, stop := context.WithTimeout(context.Background(), patience)
			defer stop()
			q := newQuirkTest(t, p)
			for _, command := range quirkCommands {
				err := q.run(ctx, t, command)
				if want := refusedCommands[p.Name+" "+command]; want != nil {
					if !errors.As(err, want) {
						t.Errorf("%s: got %v, want %T", command, err, want)
					}
				} else if err != nil {
					t.Errorf("%s (%s): %v", command, p.About, err)
				}
			}
			if without := strings.HasPrefix(p.Name, "referrers-") || p.Name == "harbor-old"; without != (len(q.warned) == 1) {
				t.Errorf("warnings: %q", q.warned)
			}
		})
	}
}

// A minimum chunk that is refused after the first chunk, which is larger than the
// chunk that is tried next: the blob is sent in one request.
func TestLateMinimumChunk(t *testing.T) {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	const chunk = smallChunk + 1<<20
	s := registrytest.New()
	s.LeastPatch, s.LeastLate = 2*chunk, true
	src := openStore(t)
	desc := pack(t, src, "p-lite", layer(t, src, "g", "core", noise(1, 3*chunk)))
	if _, err := newClient(t, Options{Chunk: chunk}).Push(ctx, src, desc, serve(t, s)+"/team/p-lite:0.1.0", PushOptions{}); err != nil {
		t.Error(err)
	}
}

// A referrers API that has never answered is not asked as often as the rest.
func TestBriefReferrers(t *testing.T) {
	s := registrytest.New()
	s.ReferrersStatus = 503
	desc := s.AddJSON(ocispec.MediaTypeImageManifest, map[string]any{"schemaVersion": 2})
	if _, err := newClient(t, Options{}).Referrers(t.Context(), serve(t, s)+"/x", desc, ""); err == nil {
		t.Error("503, and no list under a tag: no error")
	}
	if n := s.Requested("GET referrers"); n != briefTries+1 {
		t.Errorf("%d requests", n)
	}
}
