package codec

import (
	"encoding/binary"
	"errors"
)

// maxBack is how far before its frame the data of one may begin in MPEG 2.
const maxBack = 255

// repack rewrites an MP3 of 22,050 Hz for go-mp3 0.3.4, which misjudges the
// size of frames with a padding byte at every second bitrate and loses sync; no
// other rate of MPEG 2 has such frames. The sound is unchanged: each frame's
// data, in frames without that byte.
func repack(data []byte, first mp3Header) ([]byte, error) {
	p := &packer{}
	for len(data) >= 4 {
		h, ok := readMP3Header(data)
		if ok = ok && h.like(first) && h.size() >= 4+h.side(); !ok {
			data = data[1:]
			continue
		}
		if len(data) < h.size() {
			break
		}
		if err := p.add(h, data[4:h.size()]); err != nil {
			return nil, err
		}
		data = data[h.size():]
	}
	return p.file(), nil
}

// packer writes frames whose data starts as early as possible.
type packer struct {
	seen   []byte // the data of the frames read, as far as the next may refer back
	frames []packed
	main   []byte // the data of the frames written
	next   int    // the earliest start of the next frame's data in main
}

type packed struct {
	header mp3Header
	side   []byte
	room   int // bytes of main in it
}

// add adds a frame without its header.
func (p *packer) add(h mp3Header, b []byte) error {
	side := h.side()
	info := append([]byte(nil), b[:side]...)
	if h>>16&1 == 0 {
		info = info[2:] // without the checksum
		h |= 1 << 16
	}
	begin := len(p.seen) - int(info[0])
	p.seen = append(p.seen, b[side:]...)
	// After main_data_begin and the private bits each channel has 63 bits; the
	// first 12 are the number of data bits.
	need := 0
	for c := range h.channels() {
		at := 8 + h.channels() + 63*c
		need += int(binary.BigEndian.Uint32(info[at/8:])<<(at%8)) >> 20
	}
	need = (need + 7) / 8
	var main []byte
	if begin >= 0 && begin+need <= len(p.seen) {
		main = p.seen[begin : begin+need]
	} else { // lost with earlier frames: silence
		clear(info)
	}
	start := len(p.main)
	at := max(p.next, start-maxBack)
	// At least the original size: the data of later frames may need the room.
	size := 0
	for rate := mp3Header(1); rate < 15 && (size < len(b)-side-1 || start+size < at+len(main)); rate++ {
		h = h&^0xf200 | rate<<12 // without padding byte
		size = h.size() - 4 - len(info)
	}
	if start+size < at+len(main) {
		return errors.New("MP3 frame data exceeds the frame size")
	}
	p.main = append(p.main, make([]byte, size)...)
	copy(p.main[at:], main)
	info[0], p.next = byte(max(start-at, 0)), at+len(main)
	p.frames = append(p.frames, packed{h, info, size})
	if n := len(p.seen) - maxBack; n > 0 {
		p.seen = append(p.seen[:0], p.seen[n:]...)
	}
	return nil
}

// file returns the complete file.
func (p *packer) file() []byte {
	var out []byte
	for _, f := range p.frames {
		out = binary.BigEndian.AppendUint32(out, uint32(f.header))
		out = append(append(out, f.side...), p.main[:f.room]...)
		p.main = p.main[f.room:]
	}
	return out
}
