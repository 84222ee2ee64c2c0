package resolve

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/modelpack"
)

// A locked module is found by its digest in the store: without a registry,
// after the tag was moved there and here, and after gc.
func TestPinsOffline(t *testing.T) {
	ctx, there, here := context.Background(), openStore(t), openStore(t)
	put(t, there, "core", "1.0.0", "team/core:1.0.0")
	put(t, there, "skill", "0.3.0", "team/skill:0.3.0")
	host, client := serve(t, there)
	local := &Layout{From: here, Into: here, Verifier: &trusting{}, Label: "store"}
	far := &Registry{Client: client, Prefix: host + "/team", Into: here, Verifier: &trusting{}}
	g := graph(t, "core@^1", "skill@^0")
	_, lock, err := Resolve(ctx, g, Options{Sources: []Source{local, far}})
	if err != nil {
		t.Fatal(err)
	}
	locked := Options{Sources: []Source{local}, Lock: lock, Locked: true, Skipped: []string{host + "/team"}}
	if _, err := here.GC(ctx, registry.GCOptions{Grace: -1}); err != nil {
		t.Fatal(err)
	}
	_, again, err := Resolve(ctx, g, locked)
	if err != nil || chosen(again) != chosen(lock) {
		t.Fatalf("offline: %s, %v; locked %s", chosen(again), err, chosen(lock))
	}

	// The same version with other bytes; both are kept.
	first := lock.Modules[0].Digest
	dir := t.TempDir()
	router(t, dir, "core", "1.0.0", "description: anew\n")
	m, _ := modules.Load(dir)
	_, desc, err := modelpack.Pack(ctx, there, m)
	if err == nil {
		err = there.Tag(ctx, desc, "team/core:1.0.0")
	}
	if err != nil {
		t.Fatal(err)
	}
	_, lock2, err := Resolve(ctx, g, Options{Sources: []Source{far}})
	if err != nil || lock2.Modules[0].Digest == first {
		t.Fatalf("%s, %v", chosen(lock2), err)
	}
	if _, err := here.GC(ctx, registry.GCOptions{Grace: -1}); err != nil {
		t.Fatal(err)
	}
	if got := tags(t, here); !strings.Contains(got, host+"/team/core:pinned-"+desc.Digest.Encoded()[:16]) {
		t.Errorf("the store has %s", got)
	}
	for _, l := range []*builds.Lock{lock, lock2} {
		locked.Lock = l
		if _, again, err := Resolve(ctx, g, locked); err != nil || again.Modules[0].Digest != l.Modules[0].Digest || again.Modules[0].Source != host+"/team/core" {
			t.Errorf("offline: %s, %v", chosen(again), err)
		}
	}

	// Without names but with the bytes; then without both.
	list, _ := here.Tags(ctx)
	for _, tag := range list {
		if err := here.Untag(ctx, tag.Ref); err != nil {
			t.Fatal(err)
		}
	}
	ver := &trusting{}
	locked.Sources = []Source{&Layout{From: here, Into: here, Verifier: ver, Label: "store"}}
	if _, _, err := Resolve(ctx, g, locked); err != nil || ver.asked[0] != host+"/team/core" {
		t.Errorf("%v; asked about %v", err, ver.asked)
	}
	locked.Sources = []Source{&Layout{From: openStore(t), Into: here, Verifier: ver, Label: "store"}}
	_, _, err = Resolve(ctx, graph(t, "core@^1"), locked)
	want1(t, err, diag.Offline, "core@1.0.0 is locked to "+locked.Lock.Modules[0].Digest, "came from "+host+"/team/core", "not asked: "+host+"/team")
}

// If the pinned module is missing, the message names the locked version, and
// not the versions that would not help.
func TestPinGone(t *testing.T) {
	ctx, store := context.Background(), openStore(t)
	put(t, store, "enc", "1.3.0", "enc:1.3.0")
	put(t, store, "enc", "1.4.0", "enc:1.4.0")
	src := []Source{&Layout{From: store, Into: store, Verifier: &trusting{}, Label: "store"}}
	d := "sha256:" + strings.Repeat("ab", 32)
	lock := &builds.Lock{Modules: []builds.Locked{{Name: "enc", Version: "1.3.9", Digest: d, Source: "store"}}}
	_, _, err := Resolve(ctx, graph(t, "enc@^1.3"), Options{Sources: src, Lock: lock, Locked: true})
	want1(t, err, diag.NotFound, "enc@1.3.9 is locked to "+d, "looked in store", "mm lock --update enc")
	_, got, err := Resolve(ctx, graph(t, "enc@^1.3"), Options{Sources: src, Lock: lock})
	if err != nil || chosen(got) != "enc@1.4.0 store" {
		t.Errorf("not locked: %s, %v", chosen(got), err)
	}
}

// A folder is edited: its pin is a version, and under --locked its bytes too.
func TestPinsOfFolders(t *testing.T) {
	ctx, dir, store := context.Background(), t.TempDir(), openStore(t)
	router(t, filepath.Join(dir, "core"), "core", "1.0.0", "")
	router(t, filepath.Join(dir, "skill"), "skill", "1.0.0", "")
	src := []Source{&Folder{Dir: dir, Store: store}}
	g := graph(t, "core@^1", "skill@^1")
	_, lock, err := Resolve(ctx, g, Options{Sources: src})
	if err != nil {
		t.Fatal(err)
	}
	router(t, filepath.Join(dir, "a-next"), "core", "1.1.0", "")
	router(t, filepath.Join(dir, "b-next"), "skill", "1.1.0", "")
	router(t, filepath.Join(dir, "skill"), "skill", "1.0.0", "description: edited\n")
	for name, tc := range map[string]struct {
		opt  Options
		want string
	}{
		"pinned":     {Options{Lock: lock}, "1.0.0 1.0.0"},
		"update":     {Options{Lock: lock, Update: []string{"core"}}, "1.1.0 1.0.0"},
		"update all": {Options{Lock: lock, Update: []string{"*"}}, "1.1.0 1.1.0"},
		"no lock":    {Options{}, "1.1.0 1.1.0"},
	} {
		tc.opt.Sources = src
		_, got, err := Resolve(ctx, g, tc.opt)
		if err != nil || got.Modules[0].Version+" "+got.Modules[1].Version != tc.want {
			t.Errorf("%s: %s, %v", name, chosen(got), err)
		}
	}
	_, _, err = Resolve(ctx, g, Options{Sources: src, Lock: lock, Locked: true})
	want1(t, err, diag.LockDrift, "skill@1.0.0 is locked to "+lock.Modules[1].Digest, "/skill has sha256:", "mm lock --update skill")

	// The store still has the bytes that were packed: they are the lock's, and need no
	// signature. A store that lacks them changes nothing; without --locked the folder decides.
	var warnings []string
	both := Options{Sources: append(src, &Layout{From: store, Into: store, Verifier: refusing{}, Label: "store"}), Lock: lock, Locked: true, Say: func(s string) { warnings = append(warnings, s) }}
	_, kept, err := Resolve(ctx, g, both)
	if err != nil || kept.Modules[1].Digest != lock.Modules[1].Digest || kept.Modules[1].Source != lock.Modules[1].Source {
		t.Errorf("from the store: %s, %v", chosen(kept), err)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "/skill differs from the lock: the locked bytes of skill@1.0.0 are used") {
		t.Errorf("warnings %q", warnings)
	}
	if _, err := store.Resolve(ctx, "skill:pinned-"+strings.TrimPrefix(lock.Modules[1].Digest, "sha256:")[:16]); err != nil {
		t.Errorf("gc would remove the bytes: %v", err)
	}
	_, err = store.Resolve(ctx, "skill:1.0.0")
	if !errors.Is(err, errdef.ErrNotFound) {
		t.Errorf("the version of the folder is named: %v", err)
	}
	both.Locked = false
	if _, got, err := Resolve(ctx, g, both); err != nil || got.Modules[1].Digest == lock.Modules[1].Digest {
		t.Errorf("not locked: %s, %v", chosen(got), err)
	}
	both.Locked, both.Sources = true, append(src, &Layout{From: openStore(t), Into: store, Verifier: &trusting{}, Label: "other"})
	_, _, err = Resolve(ctx, g, both)
	want1(t, err, diag.LockDrift, "skill@1.0.0 is locked to ")

	// The folder's version was raised in place: --locked still has the lock's.
	router(t, filepath.Join(dir, "skill"), "skill", "1.0.9", "")
	both.Sources = append(src, &Layout{From: store, Into: store, Verifier: refusing{}, Label: "store"})
	if _, got, err := Resolve(ctx, g, both); err != nil || got.Modules[1].Version != "1.0.0" {
		t.Errorf("a version raised, locked: %s, %v", chosen(got), err)
	}
	both.Locked = false
	if _, got, err := Resolve(ctx, g, both); err != nil || got.Modules[1].Version != "1.1.0" {
		t.Errorf("a version raised: %s, %v", chosen(got), err)
	}
	router(t, filepath.Join(dir, "skill"), "skill", "1.0.0", "description: edited\n")

	// A pin that no longer fits is dropped; the others remain.
	_, got, err := Resolve(ctx, graph(t, "core@^1.1", "skill@^1"), Options{Sources: src, Lock: lock})
	if err != nil || got.Modules[0].Version != "1.1.0" || got.Modules[1].Version != "1.0.0" {
		t.Errorf("%s, %v", chosen(got), err)
	}
	_, _, err = Resolve(ctx, graph(t, "core@^1.1"), Options{Sources: src, Lock: lock, Locked: true})
	want1(t, err, diag.LockStale, "core@^1.1")
	_, _, err = Resolve(ctx, g, Options{Sources: src, Locked: true})
	want1(t, err, diag.LockMissing)

	// A module that is not in the lock is not added silently.
	router(t, filepath.Join(dir, "skill"), "skill", "1.0.0", "")
	router(t, filepath.Join(dir, "core"), "core", "1.0.0", "")
	router(t, filepath.Join(dir, "needed"), "needed", "1.0.0", "")
	lock.Modules[0].Digest = digestOf(t, filepath.Join(dir, "core"), "requires: [needed@^1]\n")
	_, _, err = Resolve(ctx, g, Options{Sources: src, Lock: lock, Locked: true})
	want1(t, err, diag.LockStale, "needed@1.0.0 is needed and not in")
}

// digestOf adds text to the module in dir and returns its digest.
func digestOf(t testing.TB, dir, more string) string {
	t.Helper()
	router(t, dir, "core", "1.0.0", more)
	m, list := modules.Load(dir)
	if list.Failed() {
		t.Fatal(list)
	}
	d, err := modelpack.Digest(context.Background(), m)
	if err != nil {
		t.Fatal(err)
	}
	return d.String()
}
