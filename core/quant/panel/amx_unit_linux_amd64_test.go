//go:build !purego

package panel

import (
	"encoding/binary"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// amxUnit emulates the AMX instructions at which threads have stopped (Intel's
// Software Developer's Manual, volume 2: LDTILECFG, TILEZERO, TILELOADD,
// TILESTORED, TILERELEASE, TDPBSSD and its variants). It returns an error where
// the manual specifies an exception.
type amxUnit struct {
	mem     *os.File // of the process
	code    map[uint64][16]byte
	threads map[int]*amxState
	counts  map[string]int
}

// amxState holds the tiles of one thread.
type amxState struct {
	configured bool
	rows, cols [8]int // cols in bytes
	tiles      [8][16][64]byte
}

// instruction is a decoded AMX instruction.
type instruction struct {
	opcode, pp  byte
	reg, rm, vs int // registers; rm is -1 for a memory operand
	base, index uint64
	shift       uint
	size        uint64 // in bytes
}

// step emulates the instruction of thread tid and the AMX instructions that
// follow it. It reports whether there was one.
func (u *amxUnit) step(tid int) (done bool, err error) {
	var r unix.PtraceRegs
	if err := unix.PtraceGetRegs(tid, &r); err != nil {
		return false, err
	}
	s := u.threads[tid]
	if s == nil {
		s = &amxState{}
		u.threads[tid] = s
	}
	for {
		code, ok := u.code[r.Rip]
		if !ok {
			if _, err := u.mem.ReadAt(code[:], int64(r.Rip)); err != nil {
				return false, err
			}
			u.code[r.Rip] = code
		}
		in, ok := decodeAMX(code, &r)
		if !ok {
			break
		}
		if err := u.do(s, in); err != nil {
			return false, fmt.Errorf("at %#x (% x): %w", r.Rip, code[:in.size], err)
		}
		r.Rip += in.size
		done = true
	}
	if !done {
		return false, nil
	}
	return true, unix.PtraceSetRegs(tid, &r)
}

// decodeAMX decodes C4 RXB.00010 W.vvvv.L.pp opcode ModRM [SIB] [displacement].
func decodeAMX(c [16]byte, r *unix.PtraceRegs) (in instruction, ok bool) {
	if c[0] != 0xc4 || c[1]&0x1f != 2 || c[2]&0x84 != 0 || c[3] != 0x49 && c[3] != 0x4b && c[3] != 0x5e {
		return in, false
	}
	registers := [16]uint64{r.Rax, r.Rcx, r.Rdx, r.Rbx, r.Rsp, r.Rbp, r.Rsi, r.Rdi, r.R8, r.R9, r.R10, r.R11, r.R12, r.R13, r.R14, r.R15}
	x, b := ^c[1]>>6&1<<3, ^c[1]>>5&1<<3
	mod, rm := c[4]>>6, c[4]&7
	in = instruction{opcode: c[3], pp: c[2] & 3, reg: int(c[4] >> 3 & 7), vs: int(^c[2] >> 3 & 15), rm: int(rm), size: 5}
	if mod == 3 {
		return in, true
	}
	in.rm = -1
	if rm == 4 {
		sib := c[5]
		in.size++
		in.shift = uint(sib >> 6)
		if i := sib>>3&7 | x; i != 4 {
			in.index = registers[i]
		}
		rm = sib & 7
	}
	in.base = registers[rm|b]
	switch {
	case mod == 1:
		in.base += uint64(int64(int8(c[in.size])))
		in.size++
	case mod == 2:
		in.base += uint64(int64(int32(binary.LittleEndian.Uint32(c[in.size:]))))
		in.size += 4
	case rm == 5: // an address without a base
		return in, false
	}
	return in, true
}

func (u *amxUnit) do(s *amxState, in instruction) error {
	memory := in.rm < 0
	name := ""
	switch {
	case in.opcode == 0x49 && in.pp == 0 && memory:
		name = "LDTILECFG"
	case in.opcode == 0x49 && in.pp == 0:
		name = "TILERELEASE"
	case in.opcode == 0x49 && in.pp == 3 && !memory:
		name = "TILEZERO"
	case in.opcode == 0x4b && in.pp == 3 && memory:
		name = "TILELOADD"
	case in.opcode == 0x4b && in.pp == 2 && memory:
		name = "TILESTORED"
	case in.opcode == 0x5e && !memory:
		name = [4]string{"TDPBUUD", "TDPBUSD", "TDPBSUD", "TDPBSSD"}[in.pp]
	default:
		return fmt.Errorf("opcode %#x with prefix %d is not an AMX instruction", in.opcode, in.pp)
	}
	u.counts[name]++
	if in.opcode != 0x5e && in.vs != 0 {
		return fmt.Errorf("%s: unexpected third operand", name)
	}
	if name == "LDTILECFG" {
		if s.configured {
			return fmt.Errorf("tiles configured twice without a release")
		}
		return u.configure(s, in.base)
	}
	if name == "TILERELEASE" {
		*s = amxState{}
		return nil
	}
	if !s.configured || s.rows[in.reg] == 0 {
		return fmt.Errorf("%s of tile %d without a shape", name, in.reg)
	}
	switch name {
	case "TILEZERO":
		s.tiles[in.reg] = [16][64]byte{}
	case "TILELOADD":
		s.tiles[in.reg] = [16][64]byte{}
		return u.move(s, in, u.mem.ReadAt)
	case "TILESTORED":
		return u.move(s, in, u.mem.WriteAt)
	default:
		return s.multiply(in)
	}
	return nil
}

// configure reads 64 bytes: the palette, the start row, zeros, 16 × 2 bytes of
// row lengths in bytes, 16 bytes of row counts.
func (u *amxUnit) configure(s *amxState, at uint64) error {
	var c [64]byte
	if _, err := u.mem.ReadAt(c[:], int64(at)); err != nil {
		return err
	}
	if c[0] != 1 || [15]byte(c[1:16]) != [15]byte{} || [16]byte(c[32:48]) != [16]byte{} || [8]byte(c[56:]) != [8]byte{} {
		return fmt.Errorf("bad tile configuration % x", c)
	}
	*s = amxState{configured: true}
	for i := range s.rows {
		s.cols[i], s.rows[i] = int(binary.LittleEndian.Uint16(c[16+2*i:])), int(c[48+i])
		if s.cols[i] > 64 || s.rows[i] > 16 || (s.cols[i] == 0) != (s.rows[i] == 0) {
			return fmt.Errorf("tile %d: bad shape of %d rows of %d bytes", i, s.rows[i], s.cols[i])
		}
	}
	return nil
}

// move loads or stores a tile, row by row.
func (u *amxUnit) move(s *amxState, in instruction, f func([]byte, int64) (int, error)) error {
	for row := range s.rows[in.reg] {
		if _, err := f(s.tiles[in.reg][row][:s.cols[in.reg]], int64(in.base+uint64(row)*(in.index<<in.shift))); err != nil {
			return fmt.Errorf("row %d of tile %d: %w", row, in.reg, err)
		}
	}
	return nil
}

// multiply adds the products of rm and vs to tile reg.
func (s *amxState) multiply(in instruction) error {
	a, b, c := in.rm, in.vs, in.reg
	if b > 7 || a == b || a == c || b == c || s.rows[a] != s.rows[c] || s.cols[b] != s.cols[c] ||
		s.cols[a] != 4*s.rows[b] || s.cols[c]%4 != 0 {
		return fmt.Errorf("shape mismatch: product of tiles %d (%d×%d) and %d (%d×%d) in %d (%d×%d)",
			a, s.rows[a], s.cols[a], b, s.rows[b], s.cols[b], c, s.rows[c], s.cols[c])
	}
	wide := func(v byte, signed bool) int32 {
		if signed {
			return int32(int8(v))
		}
		return int32(v)
	}
	for m := range s.rows[c] {
		for n := range s.cols[c] / 4 {
			out := s.tiles[c][m][4*n : 4*n+4]
			sum := binary.LittleEndian.Uint32(out)
			for k := range s.cols[a] {
				sum += uint32(wide(s.tiles[a][m][k], in.pp&2 != 0) * wide(s.tiles[b][k/4][4*n+k%4], in.pp&1 != 0))
			}
			binary.LittleEndian.PutUint32(out, sum)
		}
	}
	return nil
}
