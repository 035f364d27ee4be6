package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

func bootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id)), err
}

// upTime is the same in all containers of this host.
func upTime() (time.Duration, error) {
	ahead, err := namespaceOffset()
	if err != nil {
		return 0, err
	}
	var ts unix.Timespec
	err = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts)
	return time.Duration(ts.Nano()) - ahead, err
}

// namespaceOffset returns what the time namespace of this process adds to CLOCK_BOOTTIME, see
// time_namespaces(7). The file has the offset of its children's namespace, which is another one
// after unshare(2), in old kernels also after an exec.
var namespaceOffset = sync.OnceValues(func() (time.Duration, error) {
	const file = "/proc/self/timens_offsets"
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil // this kernel has none
	}
	own, _ := os.Readlink("/proc/self/ns/time")
	if childrens, _ := os.Readlink("/proc/self/ns/time_for_children"); own != childrens {
		return 0, errors.New("this process is not in the time namespace of its children: start it with unshare --fork")
	}
	for line := range strings.Lines(string(text)) {
		var clock string
		var s, ns int64
		_, _ = fmt.Sscan(line, &clock, &s, &ns)
		if clock == "boottime" || clock == "7" { // its number in Linux 5.6
			return time.Duration(s)*time.Second + time.Duration(ns), nil
		}
	}
	return 0, errors.Join(err, errors.New(file+" has no line for boottime"))
})

// sharedFS are the file systems that another kernel may share, by their magic number in
// statfs(2). FUSE and 9p can be local, but sshfs, virtiofs and the shared folders of virtual
// machines are of these kinds.
var sharedFS = map[uint32]string{
	unix.NFS_SUPER_MAGIC:   "nfs",
	unix.SMB_SUPER_MAGIC:   "smb",
	unix.SMB2_SUPER_MAGIC:  "smb2",
	unix.CIFS_SUPER_MAGIC:  "cifs",
	unix.NCP_SUPER_MAGIC:   "ncp",
	unix.AFS_SUPER_MAGIC:   "afs",
	unix.AFS_FS_MAGIC:      "afs",
	unix.CODA_SUPER_MAGIC:  "coda",
	unix.CEPH_SUPER_MAGIC:  "ceph",
	unix.OCFS2_SUPER_MAGIC: "ocfs2",
	unix.V9FS_MAGIC:        "9p",
	unix.FUSE_SUPER_MAGIC:  "fuse",
	0x01161970:             "gfs2",
	0x0bd00bd0:             "lustre",
	0x19830326:             "beegfs",
	0x47504653:             "gpfs",
	0x786f4256:             "vboxsf",
	0xbacbacbc:             "vmhgfs",
}

// networkFS returns the name of dir's file system if other hosts may share it, else "".
func networkFS(dir string) (string, error) {
	var st unix.Statfs_t
	err := unix.Statfs(dir, &st)
	return sharedFS[uint32(st.Type)], err
}
