#!/bin/sh
# leader-address.sh SLICE - while leaderrun in this pod leads, the EndpointSlice has this pod's
# address alone. Afterwards it has none, unless another leader's is there.
set -u
account=/var/run/secrets/kubernetes.io/serviceaccount
slice=https://kubernetes.default.svc/apis/discovery.k8s.io/v1/namespaces/$(cat $account/namespace)/endpointslices/$1
patch() { # TYPE TEXT STATUS...: whether the answer has one of these
	answer=$(curl --silent --show-error --max-time 3 --cacert $account/ca.crt --header "Authorization: Bearer $(cat $account/token)" \
		--request PATCH --header "Content-Type: application/$1+json" --data "$2" --output /dev/null --write-out '%{http_code}' "$slice")
	shift 2
	case " $* " in *" $answer "*) return ;; esac
	echo "leader-address: cannot change $slice: status $answer" >&2
	return 1
}
leads() { [ "$(curl --silent --max-time 3 --output /dev/null --write-out '%{http_code}' "http://$POD_IP:9090/leader")" = 200 ]; }
here() { patch merge-patch "{\"endpoints\":[{\"addresses\":[\"$POD_IP\"],\"conditions\":{\"ready\":true}}]}" 200; }
away() { # 422: there is none, or another leader's
	patch json-patch "[{\"op\":\"test\",\"path\":\"/endpoints/0/addresses/0\",\"value\":\"$POD_IP\"},
		{\"op\":\"replace\",\"path\":\"/endpoints\",\"value\":[]}]" 200 422
}

trap 'away; exit' TERM INT
gone=no # at the start, too: whoever led here may have been killed
while :; do
	if leads; then
		gone=no
		here # again and again: what a former leader sent may come late
	elif [ $gone = no ] && away; then
		gone=yes
	fi
	sleep 2 &
	wait $!
done
