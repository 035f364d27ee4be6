package file

import (
	"testing"

	"golang.org/x/sys/unix"
)

func init() { roles["shared"] = isRefusedAsShared }

func TestSharedFileSystemIsRefused(t *testing.T) {
	dir := private(t, t.TempDir())
	if out, err := inRole(t, "shared", dir).Output(); err != nil {
		t.Errorf("%v %s", err, out)
	}
}

// A test must not mount a network file system. Instead this process declares the file system
// of its directory to be one.
func isRefusedAsShared(dir string) error {
	if _, err := Open(dir); err != nil {
		return err
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return err
	}
	sharedFS[uint32(st.Type)] = "fakefs"
	return wantRefusal(dir, "other hosts may share (fakefs)")
}

func TestSharedFileSystems(t *testing.T) {
	for name, magic := range map[string]uint32{ // as statfs(2) lists them
		"nfs": 0x6969, "smb": 0x517b, "cifs": 0xff534d42, "smb2": 0xfe534d42, "ceph": 0x00c36400, "9p": 0x01021997, "fuse": 0x65735546,
	} {
		if sharedFS[magic] != name {
			t.Errorf("%#x is %q, want %q", magic, sharedFS[magic], name)
		}
	}
	for name, magic := range map[string]uint32{
		"ext4": 0xef53, "xfs": 0x58465342, "btrfs": 0x9123683e, "tmpfs": 0x01021994, "overlay": 0x794c7630, "zfs": 0x2fc12fc1,
	} {
		if got := sharedFS[magic]; got != "" {
			t.Errorf("%s counts as %s", name, got)
		}
	}
}
