package workspace

import (
	"fmt"
	"slices"
	"testing"
)

// Channels are those that tags of versions name; others do not count.
func TestChannelNames(t *testing.T) {
	got := channelNames([]string{"channel-prod-000002", "channel-prod-000001", "channel-a-b-000001", "channel-x-1", "channel-000001", "channel--000001", "0.1.0", "channel-prod-00000x"})
	if want := []string{"a-b", "prod"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for n, ok := range map[int]bool{maxChannels: true, maxChannels + 1: false} { // maxChannels
		var tags []string
		for i := range n {
			tags = append(tags, fmt.Sprintf("channel-c%d-000001", i))
		}
		if _, err := boundedChannels("r", tags); (err == nil) != ok {
			t.Errorf("%d channels: got %v", n, err)
		}
	}
}
