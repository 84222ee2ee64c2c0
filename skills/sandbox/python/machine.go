package python

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/tetratelabs/wazero/api"

	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/skills/sandbox"
)

// Settings of MicroPython. Its heap grows by itself up to the memory of the
// instance.
const (
	frames = 8 << 10 // words of the frames of nested calls
	heap   = 1 << 20 // bytes
)

// Kinds of a value of MicroPython's proxies (ports/webassembly/proxy_c.c). A
// value is three words; the meaning of the last two depends on the kind.
const (
	kindException = ^uint32(0)
	kindNone      = 1
	kindText      = 5 // to the host: length, address
	kindTextIn    = 5 // to Python: the same
	kindObject    = 8 // the least kind of an object: its number
)

// ask calls the program's function and stores the result in a variable.
const ask = `
def __mm():
    import json
    return json.dumps(run(json.loads(__mm_in)))
__mm_out = __mm() if "run" in globals() else None
`

// machine is one instance of MicroPython with its environment.
type machine struct {
	instance api.Module
	name     string
	allow    modules.Allow
	files    *files
	log      io.Writer
	clock    int64  // number of readings
	state    uint64 // of the random numbers
}

type machineKey struct{}

// of returns the machine that calls a host function.
func of(ctx context.Context) *machine { return ctx.Value(machineKey{}).(*machine) }

// run runs a program and calls its function.
func (m *machine) run(ctx context.Context, source, input []byte, out io.Writer) error {
	ctx = context.WithValue(ctx, machineKey{}, m)
	for _, step := range []struct {
		name string
		args []uint64
	}{{"emscripten_stack_init", nil}, {"__wasm_call_ctors", nil}, {"mp_js_init", []uint64{frames, heap}}, {"proxy_c_init", nil}} {
		if _, err := m.call(ctx, step.name, step.args...); err != nil {
			return err
		}
	}
	main, err := m.main(ctx)
	if err != nil {
		return err
	}
	if err := m.set(ctx, main, "__mm_in", input); err != nil {
		return err
	}
	for _, code := range [][]byte{source, []byte(ask)} {
		if err := m.exec(ctx, code); err != nil {
			return err
		}
	}
	result, err := m.get(ctx, main, "__mm_out")
	if err != nil {
		return err
	}
	_, err = out.Write(result)
	return err
}

// call calls a function of MicroPython and returns its first result.
func (m *machine) call(ctx context.Context, name string, args ...uint64) (uint32, error) {
	f := m.instance.ExportedFunction(name)
	if f == nil {
		return 0, fmt.Errorf("MicroPython has no %s", name)
	}
	results, err := f.Call(ctx, args...)
	if err != nil || len(results) == 0 {
		return 0, err
	}
	return uint32(results[0]), nil
}

// put copies bytes and a terminating zero into MicroPython's memory.
func (m *machine) put(ctx context.Context, b []byte) (uint64, error) {
	at, err := m.call(ctx, "malloc", uint64(len(b)+1))
	if err != nil {
		return 0, err
	}
	if at == 0 {
		return 0, m.memoryFault()
	}
	if !m.instance.Memory().Write(at, b) || !m.instance.Memory().WriteByte(at+uint32(len(b)), 0) {
		return 0, m.addressFault()
	}
	return uint64(at), nil
}

func (m *machine) memoryFault() error {
	return sandbox.Faultf(sandbox.Memory, "%s exceeded its memory limit", m.name)
}

func (m *machine) addressFault() error {
	return sandbox.Faultf(sandbox.Trap, "%s crashed the interpreter: address out of bounds", m.name)
}

// value reads a value at an address; an exception is returned as an error.
func (m *machine) value(at uint64) (kind, word uint32, text []byte, err error) {
	b, ok := m.instance.Memory().Read(uint32(at), 12)
	if !ok {
		return 0, 0, nil, m.addressFault()
	}
	kind, word = binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
	if kind != kindException && kind != kindText {
		return kind, word, nil, nil
	}
	text, ok = m.instance.Memory().Read(binary.LittleEndian.Uint32(b[8:]), word)
	if !ok {
		return 0, 0, nil, m.addressFault()
	}
	if kind == kindException {
		return 0, 0, nil, m.exceptionFault(string(text))
	}
	return kind, word, text, nil
}

// exceptionFault returns the fault for an uncaught exception: text holds its type and
// its traceback with a byte 4 between.
func (m *machine) exceptionFault(text string) error {
	kind, trace, _ := strings.Cut(text, "\x04")
	trace = strings.TrimSpace(trace)
	if kind != "SystemExit" {
		io.WriteString(m.log, trace+"\n") // a full log ends the call by itself
	}
	last := trace[strings.LastIndexByte(trace, '\n')+1:]
	switch kind {
	case "MemoryError":
		return m.memoryFault()
	case "SystemExit":
		return m.exitFault(strings.TrimSpace(strings.TrimPrefix(last, "SystemExit:")))
	}
	return sandbox.Faultf(sandbox.Trap, "%s crashed: %s", m.name, strings.TrimSuffix(last, ":"))
}

// exitFault returns the fault for a program that ended itself by a number, or by
// a text for the log.
func (m *machine) exitFault(status string) error {
	code, err := strconv.Atoi(status)
	if status == "" || status == "SystemExit" || status == "None" {
		code, err = 0, nil
	}
	if err != nil {
		io.WriteString(m.log, status+"\n")
		code = 1
	}
	if code == 0 {
		return sandbox.Faultf(sandbox.Result, "%s exited without a result", m.name)
	}
	f := sandbox.Faultf(sandbox.Exit, "%s exited with code %d", m.name, code)
	f.Code = code
	return f
}

// out allocates memory for one value.
func (m *machine) out(ctx context.Context) (uint64, error) { return m.put(ctx, make([]byte, 12)) }

// main returns the reference of the module in which programs run.
func (m *machine) main(ctx context.Context) (uint64, error) {
	name, err := m.put(ctx, []byte("__main__"))
	if err != nil {
		return 0, err
	}
	at, err := m.out(ctx)
	if err != nil {
		return 0, err
	}
	if _, err := m.call(ctx, "mp_js_do_import", name, at); err != nil {
		return 0, err
	}
	kind, word, _, err := m.value(at)
	if err == nil && kind < kindObject {
		err = fmt.Errorf("MicroPython has no main module: got kind %d", kind)
	}
	return uint64(word), err
}

// set assigns a text to a variable of the program.
func (m *machine) set(ctx context.Context, object uint64, name string, text []byte) error {
	at, err := m.put(ctx, text)
	if err != nil {
		return err
	}
	var words [12]byte
	binary.LittleEndian.PutUint32(words[:], kindTextIn)
	binary.LittleEndian.PutUint32(words[4:], uint32(len(text)))
	binary.LittleEndian.PutUint32(words[8:], uint32(at))
	value, err := m.put(ctx, words[:])
	if err != nil {
		return err
	}
	attr, err := m.put(ctx, []byte(name))
	if err != nil {
		return err
	}
	_, err = m.call(ctx, "proxy_c_to_js_store_attr", object, attr, value)
	return err
}

// get reads a variable of the program that holds a text.
func (m *machine) get(ctx context.Context, object uint64, name string) ([]byte, error) {
	attr, err := m.put(ctx, []byte(name))
	if err != nil {
		return nil, err
	}
	at, err := m.out(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := m.call(ctx, "proxy_c_to_js_lookup_attr", object, attr, at); err != nil {
		return nil, err
	}
	kind, _, text, err := m.value(at)
	if err == nil && kind == kindNone {
		err = sandbox.Faultf(sandbox.Result, "%s defines no function run(args)", m.name)
	} else if err == nil && kind != kindText {
		err = sandbox.Faultf(sandbox.Result, "%s returned no result", m.name)
	}
	return text, err
}

// exec runs statements.
func (m *machine) exec(ctx context.Context, code []byte) error {
	at, err := m.put(ctx, code)
	if err != nil {
		return err
	}
	out, err := m.out(ctx)
	if err != nil {
		return err
	}
	if _, err := m.call(ctx, "mp_js_do_exec", at, uint64(len(code)), out); err != nil {
		return err
	}
	_, _, _, err = m.value(out)
	return err
}
