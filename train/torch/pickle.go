package torch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"
)

// The values of a pickle are nil, bool, int64, string, tuple, *list, *dict,
// global, *object and persistent.
type (
	tuple      []any
	list       struct{ items []any }
	dict       struct{ keys, values []any }
	global     string // module.name
	persistent struct{ id any }
	// object is the result of a call that is not made: its class, the arguments
	// and the state that would be set.
	object struct {
		class global
		args  tuple
		state any
	}
)

// get returns the value of a string key.
func (d *dict) get(key string) (any, bool) {
	for i, k := range d.keys {
		if k == key {
			return d.values[i], true
		}
	}
	return nil, false
}

// maxFields bounds the state of an object, which several objects may share and
// which field searches.
const maxFields = 16

// field returns an entry of the state of an object, nil if there is none.
func (o *object) field(name string) any {
	d, ok := o.state.(*dict)
	if !ok || len(d.keys) > maxFields {
		return nil
	}
	v, _ := d.get(name)
	return v
}

// mark is the stack entry of MARK.
type mark struct{}

// machine interprets a pickle of protocols 2 to 5. It knows the instructions
// that data need, and builds every object as a description: nothing is
// imported, called or executed. Memory is linear in the size of the input,
// since an instruction pushes at most one value and copies none.
type machine struct {
	data  []byte
	at    int
	stack []any
	memo  map[uint32]any
	known func(global) bool
}

// errTruncated reports the end of the data within an instruction.
var errTruncated = errors.New("pickle truncated")

// unpickle returns the value of a pickle. known selects the allowed globals;
// any other is an error.
func unpickle(data []byte, known func(global) bool) (any, error) {
	m := &machine{data: data, memo: map[uint32]any{}, known: known}
	for {
		at := m.at
		op, err := m.byte()
		if err != nil {
			return nil, err
		}
		if op == '.' {
			break
		}
		if err := m.step(op); err != nil {
			return nil, fmt.Errorf("pickle at byte %d: %w", at, err)
		}
	}
	if len(m.stack) != 1 || m.at != len(data) {
		return nil, fmt.Errorf("pickle ends with %d values and %d more bytes, want 1 and 0", len(m.stack), len(data)-m.at)
	}
	return m.stack[0], nil
}

func (m *machine) bytes(n int) ([]byte, error) {
	if n < 0 || n > len(m.data)-m.at {
		return nil, errTruncated
	}
	b := m.data[m.at : m.at+n]
	m.at += n
	return b, nil
}

func (m *machine) byte() (byte, error) {
	b, err := m.bytes(1)
	if err != nil {
		return 0, err
	}
	return b[0], nil
}

// number reads a little-endian unsigned number of n bytes.
func (m *machine) number(n int) (uint64, error) {
	var full [8]byte
	b, err := m.bytes(n)
	copy(full[:], b)
	return binary.LittleEndian.Uint64(full[:]), err
}

// line reads the text up to a newline.
func (m *machine) line() (string, error) {
	for i := m.at; i < len(m.data); i++ {
		if m.data[i] == '\n' {
			s := string(m.data[m.at:i])
			m.at = i + 1
			return s, nil
		}
	}
	return "", errTruncated
}

func (m *machine) push(v any) error {
	m.stack = append(m.stack, v)
	return nil
}

// pop removes the last value, which must not be a mark.
func (m *machine) pop() (any, error) {
	if len(m.stack) == 0 {
		return nil, errors.New("empty stack")
	}
	v := m.stack[len(m.stack)-1]
	if _, ok := v.(mark); ok {
		return nil, errors.New("mark instead of a value")
	}
	m.stack = m.stack[:len(m.stack)-1]
	return v, nil
}

// take removes the last n values.
func (m *machine) take(n int) (tuple, error) {
	if n > len(m.stack) {
		return nil, errors.New("empty stack")
	}
	all := append(tuple{}, m.stack[len(m.stack)-n:]...)
	for _, v := range all {
		if _, ok := v.(mark); ok {
			return nil, errors.New("mark instead of a value")
		}
	}
	m.stack = m.stack[:len(m.stack)-n]
	return all, nil
}

// toMark removes the values after the last mark, and the mark.
func (m *machine) toMark() (tuple, error) {
	for i := len(m.stack) - 1; i >= 0; i-- {
		if _, ok := m.stack[i].(mark); ok {
			all := append(tuple{}, m.stack[i+1:]...)
			m.stack = m.stack[:i]
			return all, nil
		}
	}
	return nil, errors.New("missing mark")
}

// step executes one instruction.
func (m *machine) step(op byte) error {
	switch op {
	case 0x80: // PROTO
		v, err := m.byte()
		if err == nil && (v < 2 || v > 5) {
			err = fmt.Errorf("protocol %d, want 2 to 5", v)
		}
		return err
	case 0x95: // FRAME
		_, err := m.number(8)
		return err
	case '(':
		return m.push(mark{})
	case 'N':
		return m.push(nil)
	case 0x88, 0x89: // NEWTRUE, NEWFALSE
		return m.push(op == 0x88)
	case 'K', 'M', 'J', 0x8a: // BININT1, BININT2, BININT, LONG1
		return m.integer(op)
	case 'X', 0x8c: // BINUNICODE, SHORT_BINUNICODE
		return m.text(op)
	case ')', 't', 0x85, 0x86, 0x87: // EMPTY_TUPLE, TUPLE, TUPLE1, TUPLE2, TUPLE3
		return m.tuple(op)
	case ']', '}', 'a', 'e', 's', 'u':
		return m.container(op)
	case 'q', 'r', 0x94, 'h', 'j':
		return m.remember(op)
	case 'c', 0x93: // GLOBAL, STACK_GLOBAL
		return m.global(op)
	case 'R', 0x81, 'b', 'Q': // REDUCE, NEWOBJ, BUILD, BINPERSID
		return m.object(op)
	}
	return fmt.Errorf("unsupported instruction 0x%02x", op)
}

func (m *machine) integer(op byte) error {
	switch op {
	case 'K', 'M':
		n, err := m.number(map[byte]int{'K': 1, 'M': 2}[op])
		m.push(int64(n))
		return err
	case 'J':
		n, err := m.number(4)
		m.push(int64(int32(n)))
		return err
	}
	size, err := m.byte()
	if err != nil {
		return err
	}
	if size > 8 {
		return fmt.Errorf("integer of %d bytes, want at most 8", size)
	}
	n, err := m.number(int(size))
	shift := 64 - 8*uint(size)
	m.push(int64(n<<shift) >> shift) // two's complement
	return err
}

func (m *machine) text(op byte) error {
	n, err := m.number(map[byte]int{'X': 4, 0x8c: 1}[op])
	if err != nil {
		return err
	}
	b, err := m.bytes(int(n))
	if err != nil {
		return err
	}
	if !utf8.Valid(b) {
		return errors.New("invalid UTF-8")
	}
	return m.push(string(b))
}

func (m *machine) tuple(op byte) error {
	var all tuple
	var err error
	switch op {
	case ')':
		all = tuple{}
	case 't':
		all, err = m.toMark()
	default:
		all, err = m.take(int(op) - 0x84)
	}
	if err != nil {
		return err
	}
	return m.push(all)
}

// container executes EMPTY_LIST, EMPTY_DICT, APPEND, APPENDS, SETITEM and
// SETITEMS.
func (m *machine) container(op byte) error {
	var all tuple
	var err error
	switch op {
	case ']':
		return m.push(&list{})
	case '}':
		return m.push(&dict{})
	case 'a':
		all, err = m.take(1)
	case 's':
		all, err = m.take(2)
	default:
		all, err = m.toMark()
	}
	if err != nil {
		return err
	}
	if len(m.stack) == 0 {
		return errors.New("empty stack")
	}
	switch top := m.stack[len(m.stack)-1].(type) {
	case *list:
		if op != 'a' && op != 'e' {
			return errors.New("items of a list, want those of a dictionary")
		}
		top.items = append(top.items, all...)
	case *dict:
		if op != 's' && op != 'u' || len(all)%2 != 0 {
			return errors.New("malformed items of a dictionary")
		}
		for i := 0; i < len(all); i += 2 {
			top.keys, top.values = append(top.keys, all[i]), append(top.values, all[i+1])
		}
	default:
		return fmt.Errorf("items of %T", top)
	}
	return nil
}

// remember executes BINPUT, LONG_BINPUT, MEMOIZE, BINGET and LONG_BINGET.
func (m *machine) remember(op byte) error {
	n := uint64(len(m.memo))
	if op != 0x94 {
		var err error
		if n, err = m.number(map[byte]int{'q': 1, 'h': 1, 'r': 4, 'j': 4}[op]); err != nil {
			return err
		}
	}
	if op == 'h' || op == 'j' {
		v, ok := m.memo[uint32(n)]
		if !ok {
			return fmt.Errorf("unknown memo %d", n)
		}
		return m.push(v)
	}
	v, err := m.take(1)
	if err != nil {
		return err
	}
	m.memo[uint32(n)] = v[0]
	return m.push(v[0])
}

func (m *machine) global(op byte) error {
	var module, name string
	var err error
	if op == 'c' {
		if module, err = m.line(); err == nil {
			name, err = m.line()
		}
	} else {
		var both tuple
		if both, err = m.take(2); err == nil {
			var ok1, ok2 bool
			module, ok1 = both[0].(string)
			name, ok2 = both[1].(string)
			if !ok1 || !ok2 {
				err = errors.New("name of a global is not text")
			}
		}
	}
	if err != nil {
		return err
	}
	g := global(module + "." + name)
	if !m.known(g) {
		return fmt.Errorf("refused global %q", g)
	}
	return m.push(g)
}

func (m *machine) object(op byte) error {
	if op == 'Q' {
		id, err := m.pop()
		m.push(persistent{id})
		return err
	}
	both, err := m.take(2)
	if err != nil {
		return err
	}
	if op == 'b' {
		o, ok := both[0].(*object)
		if !ok || o.state != nil {
			return errors.New("state of a value that takes none")
		}
		o.state = both[1]
		return m.push(o)
	}
	class, ok1 := both[0].(global)
	args, ok2 := both[1].(tuple)
	if !ok1 || !ok2 {
		return errors.New("call of a value that is not a global")
	}
	return m.push(&object{class: class, args: args})
}
