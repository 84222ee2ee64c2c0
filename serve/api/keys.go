package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
)

// The limits of keys.
const (
	// MaxKeyFile bounds the bytes of a file of keys.
	MaxKeyFile = 1 << 20

	maxKeys = 1024
	minKey  = 16 // bytes of a key
)

// Key is a bearer key, of which only the hash is kept.
type Key struct {
	Name string
	Hash [sha256.Size]byte
}

// ReadKeys reads the keys of a file or, without one, those of a variable of the environment.
func ReadKeys(file, variable string) ([]Key, error) {
	if file == "" {
		text := os.Getenv(variable)
		if text == "" {
			return nil, nil
		}
		return ParseKeys(variable, text)
	}
	data, err := fsx.ReadFile(file, MaxKeyFile)
	if err != nil {
		return nil, fmt.Errorf("reading the keys: %w", err)
	}
	return ParseKeys(file, string(data))
}

// ParseKeys parses keys, one on a line: a name, and the key or its hash as sha256:HEX. Empty
// lines and those that begin with # are ignored. File is the name in diagnostics.
func ParseKeys(file, text string) ([]Key, error) {
	var keys []Key
	var list diag.List
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		pos := diag.Pos{File: file, Line: i + 1}
		key, code, detail := parseKey(line)
		switch {
		case code != "":
			list.Add(code, pos, detail, "")
		case slices.ContainsFunc(keys, func(k Key) bool { return k.Name == key.Name || k.Hash == key.Hash }):
			list.Add(diag.KeyTwice, pos, "key "+key.Name, "")
		case len(keys) == maxKeys:
			list.Add(diag.KeyMany, pos, fmt.Sprintf("limit %d", maxKeys), "")
			return nil, list.Err()
		default:
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 && !list.Failed() {
		list.Add(diag.KeyNone, diag.Pos{File: file}, "", "")
	}
	return keys, list.Err()
}

func parseKey(line string) (key Key, code diag.Code, detail string) {
	fields := strings.Fields(line)
	if len(fields) != 2 {
		return key, diag.KeyLine, fmt.Sprintf("got %d words, want a name and a key", len(fields))
	}
	key.Name = fields[0]
	if digest, hashed := strings.CutPrefix(fields[1], "sha256:"); hashed {
		sum, err := hex.DecodeString(digest)
		if err != nil || len(sum) != len(key.Hash) {
			return key, diag.KeyLine, "got a hash of another form, want sha256: and 64 hexadecimal digits"
		}
		key.Hash = [sha256.Size]byte(sum)
		return key, "", ""
	}
	if len(fields[1]) < minKey {
		return key, diag.KeyShort, fmt.Sprintf("key %s: got %d bytes, want at least %d", key.Name, len(fields[1]), minKey)
	}
	key.Hash = sha256.Sum256([]byte(fields[1]))
	return key, "", ""
}

// bearer returns the key of a request: a bearer token, or the header of Anthropic's clients.
func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token)
	}
	return r.Header.Get("X-Api-Key")
}

// holder returns the name of a request's key.
func (s *Server) holder(r *http.Request) (name string, ok bool) { return s.owner(bearer(r)) }

// owner returns the name of a key. All keys are compared, in constant time.
func (s *Server) owner(key string) (name string, ok bool) {
	if len(s.opt.Keys) == 0 {
		return "", true
	}
	got := sha256.Sum256([]byte(key))
	for _, k := range s.opt.Keys {
		if subtle.ConstantTimeCompare(got[:], k.Hash[:]) == 1 {
			name, ok = k.Name, true
		}
	}
	return name, ok
}
