package preprocess

import (
	"bytes"
	"encoding/binary"
)

// orientation returns the EXIF orientation (tag 0x0112) of a JPEG, PNG or WebP,
// 1 to 8; 1 if it is missing or unreadable.
func orientation(data []byte) int {
	tiff := exif(data)
	if len(tiff) < 8 {
		return 1
	}
	var order binary.ByteOrder = binary.LittleEndian
	switch string(tiff[:4]) {
	case "II*\x00":
	case "MM\x00*":
		order = binary.BigEndian
	default:
		return 1
	}
	at := uint64(order.Uint32(tiff[4:]))
	if at+2 > uint64(len(tiff)) {
		return 1
	}
	entries := tiff[at+2:]
	for n := int(order.Uint16(tiff[at:])); n > 0 && len(entries) >= 12; n-- {
		const orientationTag, short = 0x0112, 3
		if order.Uint16(entries) == orientationTag && order.Uint16(entries[2:]) == short {
			if v := int(order.Uint16(entries[8:])); v >= 1 && v <= 8 {
				return v
			}
			return 1
		}
		entries = entries[12:]
	}
	return 1
}

// exif returns the TIFF structure of a file's EXIF data, or nil.
func exif(data []byte) []byte {
	switch {
	case matches(data, "\xff\xd8"):
		return jpegEXIF(data[2:])
	case matches(data, "\x89PNG\r\n\x1a\n"):
		for at := 8; at+12 <= len(data); {
			size := uint64(binary.BigEndian.Uint32(data[at:]))
			if size > uint64(len(data)-at-12) {
				return nil
			}
			if string(data[at+4:at+8]) == "eXIf" {
				return data[at+8 : at+8+int(size)]
			}
			at += 12 + int(size)
		}
	case matches(data, "RIFF????WEBP"):
		for at := 12; at+8 <= len(data); {
			size := uint64(binary.LittleEndian.Uint32(data[at+4:]))
			if size > uint64(len(data)-at-8) {
				return nil
			}
			if string(data[at:at+4]) == "EXIF" {
				body, _ := bytes.CutPrefix(data[at+8:at+8+int(size)], []byte("Exif\x00\x00"))
				return body
			}
			at += 8 + int(size+size&1)
		}
	}
	return nil
}

// jpegEXIF walks the segments before the image data.
func jpegEXIF(data []byte) []byte {
	for len(data) >= 4 && data[0] == 0xff {
		marker, size := data[1], int(binary.BigEndian.Uint16(data[2:]))
		switch {
		case marker == 0xff: // fill
			data = data[1:]
			continue
		case marker == 0xda || marker == 0xd9 || size < 2 || size+2 > len(data):
			return nil
		case marker == 0xe1:
			if body, ok := bytes.CutPrefix(data[4:size+2], []byte("Exif\x00\x00")); ok {
				return body
			}
		}
		data = data[size+2:]
	}
	return nil
}

// orient rotates an image upright.
func orient(r *Raster, orientation int) *Raster {
	if orientation <= 1 {
		return r
	}
	out := &Raster{W: r.W, H: r.H, C: r.C, Pix: make([]uint8, len(r.Pix))}
	if orientation >= 5 {
		out.W, out.H = r.H, r.W
	}
	for y := range out.H {
		for x := range out.W {
			sx, sy := x, y
			switch orientation {
			case 2:
				sx = r.W - 1 - x
			case 3:
				sx, sy = r.W-1-x, r.H-1-y
			case 4:
				sy = r.H - 1 - y
			case 5:
				sx, sy = y, x
			case 6:
				sx, sy = y, r.H-1-x
			case 7:
				sx, sy = r.W-1-y, r.H-1-x
			case 8:
				sx, sy = r.W-1-y, x
			}
			copy(out.Pix[(y*out.W+x)*r.C:][:r.C], r.Pix[(sy*r.W+sx)*r.C:])
		}
	}
	return out
}
