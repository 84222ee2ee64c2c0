package workspace_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/workspace"
)

// A channel grows by signed versions and refuses versions out of order.
func TestPromote(t *testing.T) {
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
		opt.To, opt.Settle, s.Options.Created = to, 200*time.Millisecond, created
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
		d, err = reg.store.Resolve(ctx, reg.host+"/team/p:channel-staging-000002")
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"team/p:channel-prod-000004", "team/p:channel-gated-000001"} {
		if err := reg.store.Tag(ctx, d, name); err != nil {
			t.Fatal(err)
		}
	}
	w.wants("another channel", find("gated"), string(diag.BadChannel))
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
