package wasm

// Opcodes used here (WebAssembly core specification §5.4).
const (
	opBlock        = 0x02
	opLoop         = 0x03
	opIf           = 0x04
	opElse         = 0x05
	opEnd          = 0x0b
	opBr           = 0x0c
	opBrIf         = 0x0d
	opBrTable      = 0x0e
	opCall         = 0x10
	opCallIndirect = 0x11
	opDrop         = 0x1a
	opGlobalGet    = 0x23
	opGlobalSet    = 0x24
	opI32Const     = 0x41
	opI32GeS       = 0x4e
	opI32Add       = 0x6a
	opI32DivU      = 0x6e
	opRefFunc      = 0xd2
	opMisc         = 0xfc
	opVector       = 0xfd

	miscMemoryInit = 8
	miscMemoryCopy = 10
	miscMemoryFill = 11
	miscTableInit  = 12
	miscTableCopy  = 14
	miscTableGrow  = 15
	miscTableFill  = 17
)

// instr is an instruction: its opcode, the opcode after a prefix, and its
// first immediate if that is a number.
type instr struct {
	op  byte
	sub uint32
	arg int64
}

// instr reads one instruction of WebAssembly 2.0.
func (r *reader) instr() instr {
	in := instr{op: r.byte()}
	switch op := in.op; {
	case op == opBlock, op == opLoop, op == opIf:
		in.arg = r.signed(33)
	case op == opBr, op == opBrIf, op == opCall, op >= 0x20 && op <= 0x26:
		in.arg = int64(r.u32())
	case op == opRefFunc:
		r.refs = append(r.refs, r.u32())
	case op == opBrTable:
		for n := r.count("targets", maxTargets, 1); n > 0 && r.err == nil; n-- {
			r.u32()
		}
		r.u32()
	case op == opCallIndirect:
		in.arg = int64(r.u32())
		r.u32()
	case op == 0x1c: // select with types
		for n := r.count("types", 16, 1); n > 0 && r.err == nil; n-- {
			r.byte()
		}
	case op >= 0x28 && op <= 0x3e:
		r.memarg()
	case op == 0x3f, op == 0x40, op == 0xd0: // memory.size, memory.grow, ref.null
		r.byte()
	case op == opI32Const:
		in.arg = r.signed(32)
	case op == 0x42:
		in.arg = r.signed(64)
	case op == 0x43:
		r.take(4)
	case op == 0x44:
		r.take(8)
	case op <= 0x01, op == opElse, op == opEnd, op == 0x0f, op == 0x1a, op == 0x1b, op >= 0x45 && op <= 0xc4, op == 0xd1:
	case op == opMisc:
		in.sub = r.u32()
		r.misc(in.sub)
	case op == opVector:
		in.sub = r.u32()
		r.vector(in.sub)
	default:
		r.fail("unsupported instruction 0x%02x", op)
	}
	return in
}

func (r *reader) memarg() {
	if align := r.u32(); align > 16 {
		r.fail("invalid alignment 2^%d", align)
	}
	r.u32()
}

func (r *reader) misc(sub uint32) {
	switch {
	case sub <= 7:
	case sub == miscMemoryInit, sub == miscMemoryCopy, sub == miscTableInit, sub == miscTableCopy:
		r.u32()
		r.u32()
	case sub == 9, sub == miscMemoryFill, sub == 13, sub == 16, sub == miscTableFill:
		r.u32()
	case sub == miscTableGrow:
		r.fail("table.grow is not supported: tables have no memory limit")
	default:
		r.fail("unsupported instruction 0xfc %d", sub)
	}
}

func (r *reader) vector(sub uint32) {
	switch {
	case sub <= 11, sub == 92, sub == 93:
		r.memarg()
	case sub == 12, sub == 13:
		r.take(16)
	case sub >= 21 && sub <= 34:
		r.byte()
	case sub >= 84 && sub <= 91:
		r.memarg()
		r.byte()
	case sub <= 255:
	default:
		r.fail("unsupported instruction 0xfd %d", sub)
	}
}

// constant skips a constant expression and its end.
func (r *reader) constant() {
	for r.err == nil {
		switch in := r.instr(); in.op {
		case opEnd:
			return
		case opI32Const, 0x42, 0x43, 0x44, 0x23, 0xd0, opRefFunc, opVector:
		default:
			r.fail("instruction 0x%02x in a constant expression", in.op)
		}
	}
}
