package workspace_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/registry/sign"
	"mm-abi.org/mm/workspace"
)

// A channel grows by signed versions and refuses versions out of order.
func TestPromote(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: -short")
	}
	ctx := context.Background()
	w := newWorld(t)
	reg := w.serve()
	for _, v := range []string{"0.1.0", "0.2.0"} {
		w.sign(reg.store, w.pack(reg.store, build("p", v, ""), "team/p:"+v), 0)
	}
	w.trust(filepath.Join(w.home, "trust.yaml"), "channels:\n- {name: staging, match: '**', keys: [key0]}\n- {name: prod, match: '**', keys: [key0], from: staging}\n- {name: gated, match: '**', keys: [key0], evidence: [{type: sbom, keys: [key0]}]}\n", "**", 0)
	var created time.Time
	promote := func(version, to, key string, opt workspace.PromoteOptions) error {
		t.Helper()
		ws := w.open(workspace.Options{PlainHTTP: []string{reg.host}})
		s, err := ws.Signer(key, noPassword)
		if err != nil {
			t.Fatal(err)
		}
		opt.To, opt.Settle, s.Options.Created = to, 500*time.Millisecond, created
		_, err = ws.Promote(ctx, reg.host+"/team/p:"+version, s, opt)
		return err
	}
	find := func(tag string) error {
		_, err := w.open(workspace.Options{PlainHTTP: []string{reg.host}}).FindRemote(ctx, reg.host+"/team/p:"+tag)
		return err
	}
	none := workspace.PromoteOptions{}
	w.wants("empty", find("prod"), string(diag.NoChannel))
	w.wants("skipped", promote("0.1.0", "prod", "", none), string(diag.NotPromoted))
	w.wants("stranger", promote("0.1.0", "staging", "stranger.key", none), string(diag.ChannelSigner))
	w.wants("no evidence", promote("0.1.0", "gated", "", none), string(diag.PromotionRefused))
	w.wants("staging 1", promote("0.1.0", "staging", "", none), "")
	w.wants("prod 1", promote("0.1.0", "prod", "", none), "")
	w.wants("staging 2", promote("0.2.0", "staging", "", none), "")
	w.wants("prod 2", promote("0.2.0", "prod", "", none), "")
	w.wants("older", promote("0.1.0", "prod", "", none), string(diag.UnsaidRollback))
	w.wants("rollback", promote("0.1.0", "prod", "", workspace.PromoteOptions{Rollback: true}), "")
	w.wants("found", find("prod"), "")
	w.wants("taken", w.open(workspace.Options{PlainHTTP: []string{reg.host}}).WriteChannel(ctx, reg.host+"/team/p", "prod", 3), string(diag.ChannelRace))
	if list, err := w.open(workspace.Options{PlainHTTP: []string{reg.host}}).History(ctx, reg.host+"/team/p", "prod"); err != nil || len(list) != 3 || !list[0].Rollback || list[0].Digest != list[2].Digest {
		t.Errorf("history: %+v, %v", list, err)
	}
	if err := reg.store.Remove(ctx, reg.host+"/team/p:channel-prod-000003"); err != nil {
		if err := reg.store.Remove(ctx, "team/p:channel-prod-000003"); err != nil {
			t.Fatal(err)
		}
	}
	w.wants("went back", find("prod"), string(diag.ChannelRollback))
	// Another version of the number that the home has seen.
	records, err := os.ReadFile(filepath.Join(w.home, "channels.json"))
	if err == nil {
		err = os.Remove(filepath.Join(w.home, "channels.json"))
	}
	if err != nil {
		t.Fatal(err)
	}
	w.wants("again", promote("0.1.0", "prod", "", workspace.PromoteOptions{Rollback: true, Valid: time.Hour}), "")
	if err := os.WriteFile(filepath.Join(w.home, "channels.json"), records, 0o600); err != nil {
		t.Fatal(err)
	}
	w.wants("forked", find("prod"), string(diag.ChannelForked))
	// A tag that leads to the document of another channel.
	d, err := reg.store.Resolve(ctx, "team/p:channel-staging-000002")
	if err != nil {
		t.Fatal(err)
	}
	if err := reg.store.Tag(ctx, d, "team/p:channel-gated-000001"); err != nil {
		t.Fatal(err)
	}
	w.wants("another channel", find("gated"), string(diag.BadChannel))
	// Tags that anybody who can push can make do not block the channel.
	if err := os.Remove(filepath.Join(w.home, "channels.json")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"team/p:channel-prod-000004", "team/p:channel-prod-999999"} {
		if err := reg.store.Tag(ctx, d, name); err != nil {
			t.Fatal(err)
		}
	}
	w.wants("junk above", find("prod"), "")
	w.wants("replaces junk", promote("0.2.0", "prod", "", workspace.PromoteOptions{Rollback: true}), "")
	if list, err := w.open(workspace.Options{PlainHTTP: []string{reg.host}}).History(ctx, reg.host+"/team/p", "prod"); err != nil || len(list) != 4 || list[0].Version != 4 {
		t.Errorf("history after junk: %+v, %v", list, err)
	}
	if err := reg.store.Remove(ctx, "team/p:channel-prod-000004"); err != nil {
		t.Fatal(err)
	}
	w.wants("rollback below junk", find("prod"), string(diag.ChannelRollback))
	w.wants("frozen", promote("0.2.0", "staging", "", workspace.PromoteOptions{Valid: time.Nanosecond}), "")
	time.Sleep(time.Second)
	w.wants("expired", find("staging"), string(diag.ChannelExpired))
	created = time.Now().Add(time.Hour)
	w.wants("an hour ahead", promote("0.1.0", "staging", "", workspace.PromoteOptions{Rollback: true}), "")
	w.wants("a clock behind", find("staging"), string(diag.ClockDiffers))
	if _, err := os.Stat(filepath.Join(w.home, "channels.json")); err != nil {
		t.Error(err)
	}
}

// A clock that was set back does not make an expired document valid for a home that has
// seen a later time; a document without an end is used with a warning.
func TestChannelClock(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t)
	reg := w.serve()
	w.sign(reg.store, w.pack(reg.store, build("p", "0.1.0", ""), "team/p:0.1.0"), 0)
	w.trust(filepath.Join(w.home, "trust.yaml"), "channels:\n- {name: prod, match: '**', keys: [key0]}\n- {name: open, match: '**', keys: [key0]}\n", "**", 0)
	open := func() *workspace.Workspace { return w.open(workspace.Options{PlainHTTP: []string{reg.host}}) }
	promote := func(to string, valid time.Duration, created time.Time) error {
		t.Helper()
		ws := open()
		s, err := ws.Signer("", noPassword)
		if err != nil {
			t.Fatal(err)
		}
		s.Options.Created = created
		_, err = ws.Promote(ctx, reg.host+"/team/p:0.1.0", s, workspace.PromoteOptions{To: to, Valid: valid, Settle: 500 * time.Millisecond})
		return err
	}
	for to, valid := range map[string]time.Duration{"prod": time.Hour, "open": 0} {
		w.wants(to, promote(to, valid, time.Time{}), "")
		w.wants("now", open().HeadAt(ctx, reg.host+"/team/p", to, time.Now()), "")
	}
	if list, err := open().History(ctx, reg.host+"/team/p", "prod"); err != nil || list[0].Created == "" {
		t.Errorf("a document that expires states no creation: %+v, %v", list, err)
	}
	head := func(to string, after time.Duration) error {
		return open().HeadAt(ctx, reg.host+"/team/p", to, time.Now().Add(after))
	}
	w.wants("later", head("prod", 50*time.Minute), "")
	w.wants("expired", head("prod", 61*time.Minute), string(diag.ChannelExpired))
	w.wants("a little back", head("prod", 46*time.Minute), "")
	w.wants("set back", head("prod", 10*time.Minute), string(diag.ClockDiffers))
	w.wants("before its creation", head("prod", -10*time.Minute), string(diag.ClockDiffers))
	w.wants("later, without an end", head("open", 50*time.Minute), "")
	w.printed = nil
	w.wants("set back, without an end", head("open", 0), "")
	if !strings.Contains(strings.Join(w.printed, " "), "warning: "+reg.host+"/team/p open version 1: read at") {
		t.Errorf("no warning: %v", w.printed)
	}
	w.wants("promotion by a clock behind", promote("prod", time.Hour, time.Now().Add(-time.Hour)), string(diag.ClockDiffers))
}

// Tags that everybody who can push can make are reported and ignored, up to a limit.
func TestChannelJunk(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t)
	reg := w.serve()
	w.sign(reg.store, w.pack(reg.store, build("p", "0.1.0", ""), "team/p:0.1.0"), 0)
	w.trust(filepath.Join(w.home, "trust.yaml"), "channels:\n- {name: prod, match: '**', keys: [key0]}\n", "**", 0)
	ws := w.open(workspace.Options{PlainHTTP: []string{reg.host}})
	s, err := ws.Signer("", noPassword)
	if err == nil {
		_, err = ws.Promote(ctx, reg.host+"/team/p:0.1.0", s, workspace.PromoteOptions{To: "prod", Settle: 500 * time.Millisecond})
	}
	if err != nil {
		t.Fatal(err)
	}
	find := func() error {
		_, err := w.open(workspace.Options{PlainHTTP: []string{reg.host}}).FindRemote(ctx, reg.host+"/team/p:prod")
		return err
	}
	blob := func(media, text string) ocispec.Descriptor {
		d, err := reg.store.AddBytes(ctx, media, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	manifest := func(kind string, layers ...ocispec.Descriptor) ocispec.Manifest {
		return ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: kind, Config: ocispec.DescriptorEmptyJSON, Layers: layers}
	}
	absent := blob(sign.BundleMediaType, "absent")
	n := 2
	for _, c := range []struct {
		name     string
		manifest any
	}{ // the first document is tagged again below: its blobs must exist
		{"garbage", manifest(workspace.ChannelMedia, blob(sign.BundleMediaType, "garbage"))},
		{"empty bundle", manifest(workspace.ChannelMedia, blob(sign.BundleMediaType, "{}"))},
		{"absent bundle", manifest(workspace.ChannelMedia, absent)},
		{"huge bundle", manifest(workspace.ChannelMedia, blob(sign.BundleMediaType, strings.Repeat(" ", workspace.MaxSmall+1)))},
		{"no layer", manifest(workspace.ChannelMedia)},
		{"another layer", manifest(workspace.ChannelMedia, blob("text/plain", "{}"))},
		{"another type", manifest("text/plain", blob(sign.BundleMediaType, "{}"))},
		{"index", ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex}},
	} {
		w.raw(reg.store, c.manifest, fmt.Sprintf("team/p:channel-prod-%06d", n))
		if c.name == "absent bundle" {
			if err := os.Remove(filepath.Join(reg.store.Dir(), "blobs", "sha256", absent.Digest.Encoded())); err != nil {
				t.Fatal(err)
			}
		}
		w.wants(c.name, find(), "")
		if c.name != "absent bundle" { // a download waits for a missing blob: the next document replaces it
			n++
		}
	}
	d, err := reg.store.Resolve(ctx, "team/p:channel-prod-000002")
	if err != nil {
		t.Fatal(err)
	}
	for want := ""; n <= workspace.MaxChannelJunk+2; n++ { // version 1 is valid
		w.tag(reg.store, d, fmt.Sprintf("team/p:channel-prod-%06d", n))
		if n == workspace.MaxChannelJunk+2 {
			want = string(diag.BadChannel)
		}
		if n > workspace.MaxChannelJunk {
			w.wants(fmt.Sprint(n-1, " invalid documents"), find(), want)
		}
	}
}

// A channel remains usable after a change of keys: versions below one by a permitted key stay
// in the chain, without other effect.
func TestChannelKeys(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t)
	reg := w.serve()
	for _, v := range []string{"0.1.0", "0.2.0"} {
		w.sign(reg.store, w.pack(reg.store, build("p", v, ""), "team/p:"+v), 0)
	}
	open := func() *workspace.Workspace { return w.open(workspace.Options{PlainHTTP: []string{reg.host}}) }
	trust := func(staging, prod string, keys ...int) {
		w.trust(filepath.Join(w.home, "trust.yaml"), fmt.Sprintf("channels:\n- {name: staging, match: '**', keys: [%s]}\n- {name: prod, match: '**', keys: [%s], from: staging}\n", staging, prod), "**", keys...)
	}
	promote := func(version, to, key string, back bool) error {
		t.Helper()
		ws := open()
		s, err := ws.Signer(key, noPassword)
		if err != nil {
			t.Fatal(err)
		}
		_, err = ws.Promote(ctx, reg.host+"/team/p:"+version, s, workspace.PromoteOptions{To: to, Rollback: back, Settle: 500 * time.Millisecond})
		return err
	}
	find := func() error {
		_, err := open().FindRemote(ctx, reg.host+"/team/p:prod")
		return err
	}
	trust("key1", "key1", 0, 1)
	for _, to := range []string{"staging", "prod"} {
		w.wants(to+" 1", promote("0.1.0", to, "stranger.key", false), "")
	}
	w.wants("first", find(), "")
	trust("key0", "key0", 0)
	w.wants("a key that is gone", find(), string(diag.ChannelRollback))
	w.wants("promoted by the old key alone", promote("0.1.0", "prod", "", false), string(diag.NotPromoted))
	for _, to := range []string{"staging", "prod"} {
		w.wants(to+" 2", promote("0.2.0", to, "", false), "")
	}
	w.wants("continued by another key", find(), "")
	list, err := open().History(ctx, reg.host+"/team/p", "prod")
	if err != nil || len(list) != 2 || list[0].Key == "" || list[1].Key != "" || !strings.HasSuffix(list[1].String(), "not permitted to write the channel now)") || strings.Contains(list[0].String(), "(") {
		t.Errorf("history: %+v, %v", list, err)
	}
	w.wants("back to a version of the old key", promote("0.1.0", "prod", "", true), string(diag.NotPromoted))
	if err := os.Remove(filepath.Join(w.home, "channels.json")); err != nil {
		t.Fatal(err)
	}
	w.wants("a new home", find(), "")
	// The tag of the newest version has another document.
	d, err := reg.store.Resolve(ctx, "team/p:channel-prod-000001")
	if err != nil {
		t.Fatal(err)
	}
	w.tag(reg.store, d, "team/p:channel-prod-000002")
	w.wants("replaced", promote("0.2.0", "prod", "", false), string(diag.ChannelRollback))
}
