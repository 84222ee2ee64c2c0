package remote

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf16"

	"oras.land/oras-go/v2/registry/remote/auth"

	"mm-abi.org/mm/internal/fsx"
)

// Names of Docker Hub: of references, of its registry, and its key in
// config.json.
const (
	dockerHub   = "docker.io"
	dockerIndex = "index.docker.io"
	dockerHost  = "registry-1.docker.io"
	dockerKey   = "https://index.docker.io/v1/"
)

// maxConfig bounds docker's config.json, and the answer of a helper, in bytes.
const maxConfig = 1 << 20

// logins finds logins as docker does: by the host's helper, else by the store of
// all hosts, else in config.json. If a helper fails, the
// user is warned, and config.json or an anonymous request takes its place.
type logins struct {
	opt    Options
	file   string
	config dockerConfig

	mu    sync.Mutex
	found map[string]auth.Credential
}

// dockerConfig is the part of config.json that holds and names logins.
type dockerConfig struct {
	Auths       map[string]dockerAuth `json:"auths"`
	CredsStore  string                `json:"credsStore"`
	CredHelpers map[string]string     `json:"credHelpers"`
}

// dockerAuth is a login in config.json.
type dockerAuth struct {
	Auth          string `json:"auth"` // base64 of USER:PASSWORD
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
	Username      string `json:"username"`
	Password      string `json:"password"`
}

// credential decodes the login.
func (a dockerAuth) credential() (auth.Credential, error) {
	c := auth.Credential{Username: a.Username, Password: a.Password, RefreshToken: a.IdentityToken, AccessToken: a.RegistryToken}
	if a.Auth == "" {
		return c, nil
	}
	text, err := base64.StdEncoding.DecodeString(a.Auth)
	user, password, ok := strings.Cut(string(text), ":")
	if err != nil || !ok {
		return auth.EmptyCredential, errors.New("auth: want base64 of USER:PASSWORD")
	}
	c.Username, c.Password = user, strings.TrimRight(password, "\x00")
	return c, nil
}

// filed returns the login of a host in config.json, whose keys may have a scheme
// and a path.
func (c dockerConfig) filed(key string) (auth.Credential, error) {
	if a, ok := c.Auths[key]; ok {
		return a.credential()
	}
	for _, name := range slices.Sorted(maps.Keys(c.Auths)) {
		host := strings.TrimPrefix(strings.TrimPrefix(name, "https://"), "http://")
		if host, _, _ = strings.Cut(host, "/"); host == key {
			return c.Auths[name].credential()
		}
	}
	return auth.EmptyCredential, nil
}

// configFile is the path of docker's config.json, past links, so that a link is
// not replaced when it is written.
func configFile() (string, error) {
	dir := os.Getenv("DOCKER_CONFIG")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", nil // no home, no logins
		}
		dir = filepath.Join(home, ".docker")
	}
	file := filepath.Join(dir, "config.json")
	if target, err := filepath.EvalSymlinks(file); err == nil {
		file = target
	}
	return file, nil
}

// readConfig reads docker's config.json as UTF-8. A missing file is empty.
func readConfig(file string) ([]byte, error) {
	if file == "" {
		return []byte("{}"), nil
	}
	data, err := fsx.ReadFile(file, maxConfig)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading docker's credentials: %w", err)
	}
	text := decodeText(data)
	if len(bytes.TrimSpace(text)) == 0 {
		return []byte("{}"), nil
	}
	return text, nil
}

// decodeText returns the UTF-8 of a text with a byte order mark, as PowerShell
// writes it, in UTF-8 or UTF-16.
func decodeText(data []byte) []byte {
	swap := 0
	switch {
	case bytes.HasPrefix(data, []byte("\xef\xbb\xbf")):
		return data[3:]
	case bytes.HasPrefix(data, []byte("\xff\xfe")):
	case bytes.HasPrefix(data, []byte("\xfe\xff")):
		swap = 1
	default:
		return data
	}
	var units []uint16
	for i := 2; i+1 < len(data); i += 2 {
		units = append(units, uint16(data[i+swap])|uint16(data[i+1-swap])<<8)
	}
	return []byte(string(utf16.Decode(units)))
}

func newLogins(opt Options) (*logins, error) {
	l := &logins{opt: opt, found: map[string]auth.Credential{}}
	var err error
	if l.file, err = configFile(); err != nil {
		return nil, err
	}
	data, err := readConfig(l.file)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &l.config); err != nil {
		return nil, fmt.Errorf("reading docker's credentials: %s: %w", l.file, err)
	}
	return l, nil
}

// get returns the login of a host, as an auth.CredentialFunc. Each host is
// looked up once.
func (l *logins) get(ctx context.Context, host string) (auth.Credential, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if found, ok := l.found[host]; ok {
		return found, nil
	}
	found, err := l.look(ctx, host)
	if err == nil {
		l.found[host] = found
	}
	return found, err
}

func (l *logins) look(ctx context.Context, host string) (auth.Credential, error) {
	keys := []string{host}
	if host == dockerHost {
		keys = []string{dockerKey, dockerHub, dockerIndex, dockerHost}
	}
	for _, key := range keys {
		helper, named := l.config.CredHelpers[key], "credHelpers"
		if helper == "" {
			helper, named = l.config.CredsStore, "credsStore"
		}
		if helper == "" {
			continue
		}
		found, err := l.ask(ctx, helper, key)
		if ctx.Err() != nil {
			return auth.EmptyCredential, ctx.Err()
		}
		if err != nil {
			l.warn("no login from docker-credential-%s for %s (%s in %s): %w", helper, host, named, l.file, err)
			break
		}
		if found != auth.EmptyCredential {
			return found, nil
		}
	}
	for _, key := range keys {
		found, err := l.config.filed(key)
		if err != nil {
			l.warn("no login for %s (auths in %s): %w", host, l.file, err)
		}
		if found != auth.EmptyCredential {
			return found, nil
		}
	}
	return auth.EmptyCredential, nil
}

func (l *logins) warn(format string, args ...any) {
	l.opt.Progress(Event{Kind: Warned, Err: cleaned{fmt.Errorf(format, args...)}})
}

// helperGrace is how long the pipes of an ended helper may stay open.
const helperGrace = 500 * time.Millisecond

// ask asks a helper for the login of a host (docker-credential-helpers protocol).
func (l *logins) ask(ctx context.Context, helper, key string) (auth.Credential, error) {
	ctx, stop := context.WithTimeoutCause(ctx, l.opt.HelperTime, fmt.Errorf("no answer within %s", l.opt.HelperTime))
	defer stop()
	notice := time.AfterFunc(min(noticeAfter, l.opt.HelperTime/2), func() {
		l.opt.Progress(Event{Kind: Waiting, Err: cleaned{fmt.Errorf("waiting for docker-credential-%s", helper)}})
	})
	defer notice.Stop()
	cmd := exec.CommandContext(ctx, "docker-credential-"+helper, "get")
	cmd.Stdin, cmd.WaitDelay = strings.NewReader(key), helperGrace
	var out bounded
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	group(cmd)
	err := cmd.Run()
	if cause := context.Cause(ctx); err != nil && ctx.Err() != nil {
		return auth.EmptyCredential, cause
	}
	text := bytes.TrimSpace(out.data)
	if err != nil && strings.Contains(string(text), "credentials not found") {
		return auth.EmptyCredential, nil
	}
	if exit := new(exec.ExitError); errors.As(err, &exit) && len(text) > 0 {
		return auth.EmptyCredential, fmt.Errorf("%s", text[:min(len(text), 200)])
	}
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return auth.EmptyCredential, err
	}
	var found struct{ Username, Secret string }
	if err := json.Unmarshal(text, &found); err != nil {
		return auth.EmptyCredential, errors.New("its answer is not a login")
	}
	if found.Username == "<token>" {
		return auth.Credential{RefreshToken: found.Secret}, nil
	}
	return auth.Credential{Username: found.Username, Password: found.Secret}, nil
}

// bounded keeps the first bytes that are written to it.
type bounded struct{ data []byte }

func (b *bounded) Write(p []byte) (int, error) {
	b.data = append(b.data, p[:min(len(p), maxConfig-len(b.data))]...)
	return len(p), nil
}

// hubName returns the name of Docker Hub for each of its names and keys, and any
// other host as it is.
func hubName(host string) string {
	if slices.Contains([]string{dockerIndex, dockerHost, dockerHub, "hub.docker.com"}, host) {
		return dockerHub
	}
	return host
}
