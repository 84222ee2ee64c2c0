package dashboard

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"mm-abi.org/mm/eval/suite"
	"mm-abi.org/mm/internal/fsx"
)

// The limits of images and sounds.
const (
	maxMedium   = 4 << 20  // bytes of one
	maxAllMedia = 64 << 20 // bytes of all
	maxMedia    = 8        // of a document
)

// medium is an image or a sound of a question; one without a path is not shown.
type medium struct{ Kind, Path, Caption string }

// recordedName matches the files of images and sounds that mm eval suite writes.
var recordedName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^media/([0-9a-f]{64})(\.[a-z0-9]{1,8})?$`) })

// mediaTypes maps the types that browsers show without running anything to extensions.
var mediaTypes = map[string]string{
	"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp", "image/bmp": ".bmp",
	"audio/wave": ".wav", "audio/mpeg": ".mp3", "audio/flac": ".flac", "application/ogg": ".ogg",
}

// recorded returns the images and sounds of a document, and adds their files.
func (s *site) recorded(dir string, list []suite.Recorded) (out []medium) {
	for _, m := range list[:min(len(list), maxMedia)] {
		one := medium{Caption: line(m.Kind) + ", " + short(m.Digest)}
		path, kind, why := s.held[m.Digest], "", ""
		if path == "" {
			path, why = s.hold(dir, m)
		}
		if path != "" {
			kind = "image"
			if ext := filepath.Ext(path); ext == ".wav" || ext == ".mp3" || ext == ".flac" || ext == ".ogg" {
				kind = "audio"
			}
		} else {
			one.Caption += ", not shown: " + why
		}
		one.Kind, one.Path = kind, path
		out = append(out, one)
	}
	return out
}

// hold adds the file of an image or a sound, or returns why it is not shown.
func (s *site) hold(dir string, m suite.Recorded) (path, why string) {
	name := recordedName().FindStringSubmatch(m.File)
	if name == nil || m.Digest != "sha256:"+name[1] {
		return "", "its name is not its digest"
	}
	data, err := fsx.ReadFile(filepath.Join(dir, filepath.FromSlash(m.File)), maxMedium)
	if err != nil {
		return "", "the file is missing or over " + fsx.FormatSize(maxMedium)
	}
	sum := sha256.Sum256(data)
	if hex.EncodeToString(sum[:]) != name[1] {
		return "", "its bytes have another digest"
	}
	typ, _, _ := strings.Cut(http.DetectContentType(data), ";")
	if len(data) > 4 && string(data[:4]) == "fLaC" {
		typ = "audio/flac"
	}
	ext := mediaTypes[typ]
	if ext == "" {
		return "", "browsers do not show its format"
	}
	if s.bytes+int64(len(data)) > maxAllMedia {
		return "", "the dashboard has reached " + fsx.FormatSize(maxAllMedia)
	}
	s.bytes += int64(len(data))
	path = "media/" + name[1] + ext
	s.held[m.Digest] = path
	s.media = append(s.media, File{path, data})
	return path, ""
}
