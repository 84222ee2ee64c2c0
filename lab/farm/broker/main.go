package broker

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"

	"mm-abi.org/mm/lab/farm"
)

// Main is the program mm-queue: it serves until ctx is done or, with -attached, stdin ends.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	var o Options
	var token, users, secret string
	f := flag.NewFlagSet("mm-queue", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.Dir, "dir", "", "folder of the state")
	f.StringVar(&o.Listen, "listen", "127.0.0.1:4222", "address")
	f.StringVar(&token, "token", "", "file with the token that clients present")
	f.StringVar(&users, "users", "", "public nkeys of clients, separated by commas")
	f.StringVar(&o.Cert, "cert", "", "file with the certificate")
	f.StringVar(&o.Key, "key", "", "file with its key")
	f.StringVar(&o.CA, "ca", "", "file with the authorities of clients' certificates")
	f.StringVar(&o.Name, "name", "", "name of the server in the cluster")
	f.StringVar(&o.Cluster.Name, "cluster", "", "name of the cluster")
	f.StringVar(&o.Cluster.Listen, "cluster-listen", "", "address for the other servers")
	f.StringVar(&o.Cluster.Routes, "routes", "", "addresses of the other servers, separated by commas")
	f.StringVar(&secret, "cluster-secret", "", "file with the secret of the servers")
	attached := f.Bool("attached", false, "end when the standard input ends")
	if err := f.Parse(args); err != nil {
		return err
	}
	var err error
	for path, to := range map[string]*string{token: &o.Token, secret: &o.Cluster.Secret} {
		if path == "" {
			continue
		}
		if *to, err = farm.Secret(path); err != nil {
			return err
		}
	}
	if users != "" {
		o.Users = strings.Split(users, ",")
	}
	b, err := Start(o)
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, b.URL())
	ended := make(chan struct{})
	if *attached {
		go func() { // ends with the process
			_, _ = io.Copy(io.Discard, stdin)
			close(ended)
		}()
	}
	select {
	case <-ctx.Done():
	case <-ended:
	}
	return b.Close()
}
