package python

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/emscripten"

	"mm-abi.org/mm/skills/sandbox"
)

// host is a function that MicroPython imports. The stack holds its arguments,
// then its result.
type host func(ctx context.Context, mod api.Module, stack []uint64)

// hosts holds the implemented functions by module and name. Other system calls
// return ENOSYS, and other imports, which call JavaScript, end the call.
var hosts = map[string]host{
	"env.emscripten_resize_heap": resize,
	"env.mp_js_ticks_ms":         ticks,
	"env.mp_js_time_ms":          clock,
	"env.mp_js_random_u32":       random,
	"env.proxy_js_free_obj":      func(context.Context, api.Module, []uint64) {},
	"env.js_check_existing":      func(_ context.Context, _ api.Module, stack []uint64) { stack[0] = api.EncodeI32(-1) },
	"env.__syscall_openat":       openFile,
	"env._abort_js": func(ctx context.Context, _ api.Module, _ []uint64) {
		panic(sandbox.Faultf(sandbox.Trap, "%s crashed the interpreter", of(ctx).name))
	},
	"wasi_snapshot_preview1.fd_write": writeFile,
	"wasi_snapshot_preview1.fd_read":  readFile,
	"wasi_snapshot_preview1.fd_seek":  seekFile,
	"wasi_snapshot_preview1.fd_close": closeFile,
	"wasi_snapshot_preview1.fd_sync":  func(_ context.Context, _ api.Module, stack []uint64) { stack[0] = 0 },
}

// Errors of system calls, numbered by Emscripten as in WASI.
const (
	errBadFile  = 8
	errInvalid  = 28
	errIO       = 29
	errNoFile   = 44
	errNoSystem = 52
	errManyOpen = 33
)

// imports defines everything that MicroPython imports (wasm.Imports).
func imports(ctx context.Context, r wazero.Runtime, m wazero.CompiledModule) error {
	jumps, err := emscripten.NewFunctionExporterForModule(m) // invoke_… and longjmp
	if err != nil {
		return err
	}
	builders := map[string]wazero.HostModuleBuilder{"env": r.NewHostModuleBuilder("env")}
	jumps.ExportFunctions(builders["env"])
	for _, f := range m.ImportedFunctions() {
		from, name, _ := f.Import()
		if from == "env" && (strings.HasPrefix(name, "invoke_") || name == "_emscripten_throw_longjmp") {
			continue
		}
		if builders[from] == nil {
			builders[from] = r.NewHostModuleBuilder(from)
		}
		do := hosts[from+"."+name]
		switch {
		case do != nil:
		case strings.HasPrefix(name, "__syscall_"):
			do = func(_ context.Context, _ api.Module, stack []uint64) { stack[0] = api.EncodeI32(-errNoSystem) }
		default:
			do = func(ctx context.Context, _ api.Module, _ []uint64) {
				panic(sandbox.Faultf(sandbox.Trap, "%s calls JavaScript (%s), which is not available", of(ctx).name, name))
			}
		}
		builders[from].NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(do), f.ParamTypes(), f.ResultTypes()).Export(name)
	}
	for from, b := range builders {
		if _, err := b.Instantiate(ctx); err != nil {
			return fmt.Errorf("defining the imports of %s: %w", from, err)
		}
	}
	return nil
}

// resize grows the memory to a size and reports whether it could.
func resize(_ context.Context, mod api.Module, stack []uint64) {
	want, page := uint64(uint32(stack[0])), uint64(64<<10)
	have := uint64(mod.Memory().Size())
	stack[0] = 1
	if want <= have {
		return
	}
	if _, ok := mod.Memory().Grow(uint32((want - have + page - 1) / page)); !ok {
		stack[0] = 0
	}
}

// ticks returns milliseconds since an arbitrary time; without permission, the
// number of its calls.
func ticks(ctx context.Context, _ api.Module, stack []uint64) {
	stack[0] = api.EncodeI32(int32(of(ctx).now()))
}

// clock returns milliseconds since 1970.
func clock(ctx context.Context, _ api.Module, stack []uint64) {
	stack[0] = api.EncodeF64(float64(of(ctx).now()))
}

func (m *machine) now() int64 {
	if m.allow.Clock {
		return time.Now().UnixMilli()
	}
	m.clock++
	return m.clock
}

// random returns 32 bits; without permission, the same sequence in each call.
func random(ctx context.Context, _ api.Module, stack []uint64) {
	m := of(ctx)
	if m.allow.Random {
		var b [4]byte
		rand.Read(b[:]) // it never returns an error
		stack[0] = uint64(binary.LittleEndian.Uint32(b[:]))
		return
	}
	m.state += 0x9e3779b97f4a7c15
	z := m.state // splitmix64
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	stack[0] = uint64(uint32(z ^ z>>31))
}

// files holds the assets of a call and the open ones.
type files struct {
	list []sandbox.Asset
	open map[uint32]*file
	next uint32
}

// file is an open asset.
type file struct {
	asset sandbox.Asset
	at    int64
}

func assets(list []sandbox.Asset) *files {
	return &files{list: list, open: map[uint32]*file{}, next: firstFile}
}

const (
	firstFile = 3
	maxOpen   = 64
	maxPath   = 4 << 10
	maxPieces = 1 << 10 // of one read or write
)

// openFile opens /in/NAME for reading.
func openFile(ctx context.Context, mod api.Module, stack []uint64) {
	const writing = 0x3 | 0x40 | 0x200 | 0x400 // O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, O_APPEND
	path, ok := text(mod, uint32(stack[1]))
	f := of(ctx).files
	stack[0] = api.EncodeI32(-errNoFile)
	if !ok || uint32(stack[2])&writing != 0 {
		return
	}
	name, ok := strings.CutPrefix("/"+strings.TrimPrefix(path, "/"), "/in/")
	for _, a := range f.list {
		if ok && a.Name == name {
			if len(f.open) >= maxOpen {
				stack[0] = api.EncodeI32(-errManyOpen)
				return
			}
			f.open[f.next] = &file{asset: a}
			stack[0] = uint64(f.next)
			f.next++
			return
		}
	}
}

// text reads a zero-terminated text.
func text(mod api.Module, at uint32) (string, bool) {
	size := mod.Memory().Size()
	if at >= size {
		return "", false
	}
	b, ok := mod.Memory().Read(at, min(maxPath, size-at))
	if !ok {
		return "", false
	}
	s, _, ends := strings.Cut(string(b), "\x00")
	return s, ends
}

// pieces reads the list of buffers of a read or write.
func pieces(mod api.Module, at, n uint32) ([][]byte, bool) {
	if n > maxPieces {
		return nil, false
	}
	var list [][]byte
	for i := range n {
		ptr, one := mod.Memory().ReadUint32Le(at + 8*i)
		size, two := mod.Memory().ReadUint32Le(at + 8*i + 4)
		b, three := mod.Memory().Read(ptr, size)
		if !one || !two || !three {
			return nil, false
		}
		list = append(list, b)
	}
	return list, true
}

// writeFile writes to the log, for both output streams.
func writeFile(ctx context.Context, mod api.Module, stack []uint64) {
	fd, done := uint32(stack[0]), uint32(stack[3])
	list, ok := pieces(mod, uint32(stack[1]), uint32(stack[2]))
	if stack[0] = errBadFile; !ok || fd != 1 && fd != 2 {
		return
	}
	n := 0
	for _, b := range list {
		m, err := of(ctx).log.Write(b)
		if n += m; err != nil {
			stack[0] = errIO
			return
		}
	}
	stack[0] = store(mod, done, uint32(n))
}

func store(mod api.Module, at, n uint32) uint64 {
	if !mod.Memory().WriteUint32Le(at, n) {
		return errInvalid
	}
	return 0
}

// readFile reads from an asset; standard input is empty.
func readFile(ctx context.Context, mod api.Module, stack []uint64) {
	fd, done := uint32(stack[0]), uint32(stack[3])
	list, ok := pieces(mod, uint32(stack[1]), uint32(stack[2]))
	f := of(ctx).files.open[fd]
	switch {
	case ok && fd == 0:
		stack[0] = store(mod, done, 0)
		return
	case !ok || f == nil:
		stack[0] = errBadFile
		return
	}
	n, err := f.read(list)
	if err != nil {
		stack[0] = errIO
		return
	}
	stack[0] = store(mod, done, uint32(n))
}

// read fills buffers from the position of the file.
func (f *file) read(list [][]byte) (int, error) {
	n := 0
	for _, b := range list {
		b = b[:min(int64(len(b)), max(0, f.asset.Size-f.at))]
		m, err := f.asset.Data.ReadAt(b, f.at)
		n, f.at = n+m, f.at+int64(m)
		if m < len(b) {
			return n, errors.Join(err, errors.New("asset truncated"))
		}
	}
	return n, nil
}

// seekFile moves within an asset: relative to its beginning, its position or
// its end.
func seekFile(ctx context.Context, mod api.Module, stack []uint64) {
	f := of(ctx).files.open[uint32(stack[0])]
	by, from, into := int64(stack[1]), uint32(stack[2]), uint32(stack[3])
	if stack[0] = errBadFile; f == nil || from > 2 {
		return
	}
	at := by + []int64{0, f.at, f.asset.Size}[from]
	if stack[0] = errInvalid; at < 0 || at > f.asset.Size || by > f.asset.Size || by < -f.asset.Size {
		return
	}
	f.at = at
	if mod.Memory().WriteUint64Le(into, uint64(at)) {
		stack[0] = 0
	}
}

func closeFile(ctx context.Context, _ api.Module, stack []uint64) {
	open := of(ctx).files.open
	fd := uint32(stack[0])
	if stack[0] = errBadFile; open[fd] == nil {
		return
	}
	delete(open, fd)
	stack[0] = 0
}
