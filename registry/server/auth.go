package server

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"golang.org/x/crypto/bcrypt"
)

// maxRemembered bounds how many checked passwords are remembered.
const maxRemembered = 1024

// logins checks names and passwords.
type logins struct {
	user, password [sha256.Size]byte // of the one login
	single         bool
	hashes         map[string][]byte // bcrypt, by user
	decoy          []byte            // compared for unknown users

	mu      sync.Mutex
	checked map[[sha256.Size]byte]bool // bcrypt is slow by design; a client asks often
}

// newLogins returns nil if no login is required.
func newLogins(opt Options) (*logins, error) {
	l := &logins{hashes: map[string][]byte{}, checked: map[[sha256.Size]byte]bool{}}
	if opt.User != "" || opt.Password != "" {
		if opt.User == "" || opt.Password == "" || strings.Contains(opt.User, ":") {
			return nil, errors.New("a login needs a user without ':' and a password")
		}
		l.single, l.user, l.password = true, sha256.Sum256([]byte(opt.User)), sha256.Sum256([]byte(opt.Password))
	}
	lines := bufio.NewScanner(bytes.NewReader(opt.Htpasswd))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		user, hash, _ := strings.Cut(line, ":")
		if _, err := bcrypt.Cost([]byte(hash)); user == "" || err != nil {
			return nil, fmt.Errorf("htpasswd line %d is not user:bcrypt-hash", n)
		}
		l.hashes[user] = []byte(hash)
		l.decoy = []byte(hash)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("htpasswd: %w", err)
	}
	if !l.single && len(l.hashes) == 0 {
		if opt.Htpasswd != nil {
			return nil, errors.New("empty htpasswd")
		}
		return nil, nil
	}
	return l, nil
}

// allow checks the request's login, in a time that does not reveal whether the
// user exists.
func (l *logins) allow(r *http.Request) bool {
	user, password, ok := r.BasicAuth()
	if !ok {
		return false
	}
	if l.single {
		u, p := sha256.Sum256([]byte(user)), sha256.Sum256([]byte(password))
		if subtle.ConstantTimeCompare(u[:], l.user[:])&subtle.ConstantTimeCompare(p[:], l.password[:]) == 1 {
			return true
		}
	}
	if len(l.hashes) == 0 {
		return false
	}
	hash, known := l.hashes[user]
	if !known {
		hash = l.decoy
	}
	key := sha256.Sum256(fmt.Appendf(nil, "%d:%s:%s:%s", len(user), user, hash, password))
	l.mu.Lock()
	remembered := l.checked[key]
	l.mu.Unlock()
	if remembered {
		return known
	}
	if bcrypt.CompareHashAndPassword(hash, []byte(password)) != nil || !known {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.checked) >= maxRemembered {
		clear(l.checked)
	}
	l.checked[key] = true
	return true
}
