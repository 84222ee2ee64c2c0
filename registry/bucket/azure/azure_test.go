package azure_test

import (
	"crypto/rand"
	"os"
	"strings"
	"testing"

	"mm-abi.org/mm/registry/bucket"
	"mm-abi.org/mm/registry/bucket/azure"
	"mm-abi.org/mm/registry/bucket/buckettest"
)

// open opens a container of the double; uploads have blocks of 256 KiB.
func open(t *testing.T, store *buckettest.Store) *azure.Bucket {
	t.Helper()
	b, err := azure.New("account", "container", azure.Options{Endpoint: store.URL, Key: []byte("key"), PartSize: 256 << 10})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestSuite(t *testing.T) {
	store := buckettest.NewAzure(t)
	buckettest.Run(t, open(t, store), buckettest.Options{})
}

// TestServer runs the suite against the server of the environment (make buckets):
// MM_BUCKETS_AZURE is ACCOUNT/CONTAINER, which is created.
func TestServer(t *testing.T) {
	account, container, ok := strings.Cut(os.Getenv("MM_BUCKETS_AZURE"), "/")
	if !ok {
		t.Skip("MM_BUCKETS_AZURE names no container to create at a server; make buckets starts one")
	}
	b, err := azure.Open(bucket.Address{Scheme: "azure", Account: account, Bucket: container})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.(*azure.Bucket).Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	buckettest.Run(t, b, buckettest.Options{Prefix: rand.Text() + "/", Large: 17 << 20})
}
