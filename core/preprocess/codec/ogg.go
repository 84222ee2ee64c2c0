package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// packet is a packet of an Ogg stream.
type packet struct {
	data []byte
	end  int64 // the granule position of its page if it is the last to end there; otherwise −1
	last bool  // of the stream
}

// maxPacket limits a packet that spans several pages.
const maxPacket = 16 << 20

// ogg reads the packets of one logical stream from its pages (RFC 3533).
type ogg struct {
	data   []byte
	serial uint32
	begun  bool
	done   bool
	ready  []packet
	part   []byte // of an unfinished packet
	parted bool
}

func isOgg(data []byte) bool { return bytes.HasPrefix(data, []byte("OggS")) }

// next returns the next packet, or false after the last.
func (o *ogg) next() (packet, bool, error) {
	for len(o.ready) == 0 {
		if o.done || len(o.data) == 0 {
			if o.parted {
				return packet{}, false, errors.New("file truncated: the last packet has no end")
			}
			return packet{}, false, nil
		}
		if err := o.page(); err != nil {
			return packet{}, false, err
		}
	}
	p := o.ready[0]
	o.ready = o.ready[1:]
	return p, true, nil
}

// page reads one page. A wrong checksum, another stream and a missing
// continuation are errors.
func (o *ogg) page() error {
	const head = 27
	const continued, first, last = 1, 2, 4
	b := o.data
	if len(b) < head || string(b[:4]) != "OggS" || b[4] != 0 {
		return errors.New("missing Ogg page: the file is damaged or truncated")
	}
	flags, granule, serial := b[5], int64(binary.LittleEndian.Uint64(b[6:])), binary.LittleEndian.Uint32(b[14:])
	lacing := int(b[26])
	if len(b) < head+lacing {
		return errors.New("the last page is truncated")
	}
	size := 0
	for _, n := range b[head : head+lacing] {
		size += int(n)
	}
	if len(b) < head+lacing+size {
		return errors.New("the last page is truncated")
	}
	page := b[:head+lacing+size]
	o.data = b[len(page):]
	if sum := pageSum(page); sum != binary.LittleEndian.Uint32(page[22:]) {
		return fmt.Errorf("checksum mismatch of an Ogg page: got %08x, want %08x", sum, binary.LittleEndian.Uint32(page[22:]))
	}
	switch {
	case !o.begun:
		o.begun, o.serial = true, serial
	case flags&first != 0 || serial != o.serial:
		return errors.New("unsupported file of several Ogg streams")
	}
	if (flags&continued != 0) != o.parted {
		return errors.New("discontinuous Ogg page")
	}
	o.done = flags&last != 0
	return o.packets(page[head:head+lacing], page[head+lacing:], granule)
}

// packets splits a page's body.
func (o *ogg) packets(lacing, body []byte, granule int64) error {
	at, size := 0, 0
	for _, n := range lacing {
		size += int(n)
		if n == 255 {
			continue
		}
		p := packet{data: body[at : at+size], end: -1}
		if o.parted {
			p.data = append(o.part, p.data...)
			o.part, o.parted = nil, false
		}
		o.ready = append(o.ready, p)
		at, size = at+size, 0
	}
	if n := len(o.ready); n > 0 {
		o.ready[n-1].end, o.ready[n-1].last = granule, o.done
	}
	if len(lacing) > 0 && lacing[len(lacing)-1] == 255 {
		o.part, o.parted = append(o.part, body[at:]...), true
		if len(o.part) > maxPacket {
			return fmt.Errorf("size of an Ogg packet exceeds %d bytes", maxPacket)
		}
	}
	return nil
}

// pageSum returns the checksum of a page with its checksum field zeroed: CRC-32
// of polynomial 0x04c11db7, highest bit first.
func pageSum(page []byte) uint32 {
	var sum uint32
	for i, b := range page {
		if i >= 22 && i < 26 {
			b = 0
		}
		sum ^= uint32(b) << 24
		for range 8 {
			carry := sum >> 31
			sum = sum<<1 ^ carry*0x04c11db7
		}
	}
	return sum
}
