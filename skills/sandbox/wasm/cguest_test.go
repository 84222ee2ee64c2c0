package wasm

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/skills/sandbox"
	"mm-abi.org/mm/skills/skilltest"
)

// cGuest echoes its arguments without a library.
const cGuest = `
struct piece { char *at; unsigned size; };
__attribute__((import_module("wasi_snapshot_preview1"), import_name("fd_read")))
int fd_read(int fd, struct piece *list, unsigned n, unsigned *done);
__attribute__((import_module("wasi_snapshot_preview1"), import_name("fd_write")))
int fd_write(int fd, struct piece *list, unsigned n, unsigned *done);

static char text[1 << 16];

void _start(void) {
	unsigned size = 0, done;
	for (;;) {
		struct piece in = {text + size, sizeof text - size};
		if (fd_read(0, &in, 1, &done) || !done) break;
		size += done;
	}
	struct piece out[] = {{"{\"echo\":", 8}, {text, size}, {"}", 1}};
	fd_write(1, out, 3, &done);
}
`

// TestWarmC measures calls of a guest compiled from C. MM_CLANG names a clang
// with wasm32 and wasm-ld, or MM_ZIG a zig.
func TestWarmC(t *testing.T) {
	if os.Getenv("MM_SANDBOX") == "" {
		t.Skip("MM_SANDBOX=1 builds a guest in C")
	}
	clang, args := os.Getenv("MM_CLANG"), []string{"--target=wasm32", "-O2", "-nostdlib", "-o", "guest.wasm", "guest.c"}
	if zig := os.Getenv("MM_ZIG"); zig != "" && clang == "" {
		clang, args = zig, append([]string{"cc"}, args...)
		args[1] = "--target=wasm32-freestanding"
	}
	if clang == "" {
		var err error
		if clang, err = exec.LookPath("clang"); err != nil {
			t.Skip("skipped: no clang in PATH, none in MM_CLANG and no zig in MM_ZIG")
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "guest.c"), []byte(cGuest), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command(clang, args...)
	build.Dir = dir
	if os.Getenv("ZIG_GLOBAL_CACHE_DIR") == "" {
		build.Env = append(os.Environ(), "ZIG_GLOBAL_CACHE_DIR="+t.TempDir())
	}
	if output, err := build.CombinedOutput(); err != nil {
		t.Skipf("skipped: clang cannot build WebAssembly: %v\n%s", err, output)
	}
	code, err := os.ReadFile(filepath.Join(dir, "guest.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	skilltest.Warm(t, open(t, Options{}), sandbox.Program{Name: "guest", Code: code, Limits: modules.Effective{TimeoutMS: 60_000}}, "C wasm")
}
