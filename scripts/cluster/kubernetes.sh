#!/bin/bash
# Writes a run as a Kubernetes Indexed Job, one index a shard; or, with `merge`, the Job that joins the shards when it is done.
#
#   export PREPOSE_RUN=s3://bucket/visor PREPOSE_SHARDS=16 PREPOSE_ARGS='visor --method psg --checkpoint /models/sd15.safetensors'
#   export PREPOSE_IMAGE=registry.example/prepose:1 PREPOSE_SECRET=s3-credentials PREPOSE_GPUS=1
#   scripts/cluster/kubernetes.sh | kubectl apply -f -
#   kubectl wait --for=condition=complete --timeout=-1s job/prepose
#   scripts/cluster/kubernetes.sh merge | kubectl apply -f -
#
# PREPOSE_RUN       the run: a folder of the claim (/runs/visor), or s3://, gs://, az://
# PREPOSE_SHARDS    how many parts
# PREPOSE_ARGS      what follows `prepose run`, quoted as for a shell
# PREPOSE_OUT       where the joined run goes [PREPOSE_RUN]
# PREPOSE_IMAGE     an image with prepose in its PATH, a shell, and certificates
# PREPOSE_CLAIM     a PersistentVolumeClaim that all pods can write at once (ReadWriteMany), mounted at /runs
# PREPOSE_SECRET    a Secret whose entries become variables: AWS_ACCESS_KEY_ID and so on
# PREPOSE_MODELS    a PersistentVolumeClaim with checkpoints, mounted read-only at /models
# PREPOSE_PARALLEL  pods at once [PREPOSE_SHARDS]
# PREPOSE_GPUS      GPUs a pod [none]
# PREPOSE_CPU       cores a pod [4]
# PREPOSE_MEMORY    memory a pod [16Gi]
# PREPOSE_TRIES     how often an index is begun again when its pod fails [20]
# PREPOSE_NAME      of the Job [prepose]
set -euo pipefail
: "${PREPOSE_RUN:?is not set: the folder or object store of the run}"
: "${PREPOSE_SHARDS:?is not set: how many shards}"
: "${PREPOSE_ARGS:?is not set: what follows prepose run}"
: "${PREPOSE_IMAGE:?is not set: an image with prepose}"
name=${PREPOSE_NAME:-prepose}
case $PREPOSE_RUN in
    *://*) ;;
    /runs/*) : "${PREPOSE_CLAIM:?is not set: the claim with the folder $PREPOSE_RUN}" ;;
    *) echo "PREPOSE_RUN=$PREPOSE_RUN would be lost with the pod: a folder in /runs or an object store is needed" >&2; exit 2 ;;
esac

# Any text as a string of YAML.
quoted() {
    local text=${1//\\/\\\\}
    printf '"%s"' "${text//\"/\\\"}"
}

# A container, with what has to be around it; $1 is the shell's command.
pod() {
    cat <<YAML
          image: $(quoted "$PREPOSE_IMAGE")
          # exec: the signal that ends the pod has to reach prepose, which then finishes the pictures at hand.
          command: ["sh", "-c", $(quoted "$1")]
          env:
            - {name: PREPOSE_RUN, value: $(quoted "$PREPOSE_RUN")}
            - {name: PREPOSE_OUT, value: $(quoted "${PREPOSE_OUT:-$PREPOSE_RUN}")}
            - {name: PREPOSE_SHARDS, value: $(quoted "$PREPOSE_SHARDS")}
            - {name: PREPOSE_ARGS, value: $(quoted "$PREPOSE_ARGS")}
YAML
    if [ -n "${PREPOSE_SECRET:-}" ]; then
        echo "          envFrom:"
        echo "            - secretRef: {name: $(quoted "$PREPOSE_SECRET")}"
    fi
    local gpus=
    if [ -n "$2" ]; then gpus=", nvidia.com/gpu: $(quoted "$2")"; fi
    cat <<YAML
          resources:
            requests: {cpu: $(quoted "${PREPOSE_CPU:-4}"), memory: $(quoted "${PREPOSE_MEMORY:-16Gi}")}
            limits: {memory: $(quoted "${PREPOSE_MEMORY:-16Gi}")$gpus}
YAML
    [ -n "${PREPOSE_CLAIM:-}${PREPOSE_MODELS:-}" ] || return 0
    echo "          volumeMounts:"
    [ -z "${PREPOSE_CLAIM:-}" ] || echo "            - {name: runs, mountPath: /runs}"
    [ -z "${PREPOSE_MODELS:-}" ] || echo "            - {name: models, mountPath: /models, readOnly: true}"
    echo "      volumes:"
    [ -z "${PREPOSE_CLAIM:-}" ] || echo "        - {name: runs, persistentVolumeClaim: {claimName: $(quoted "$PREPOSE_CLAIM")}}"
    [ -z "${PREPOSE_MODELS:-}" ] || echo "        - {name: models, persistentVolumeClaim: {claimName: $(quoted "$PREPOSE_MODELS")}}"
}

case ${1:-run} in
    run)
        cat <<YAML
apiVersion: batch/v1
kind: Job
metadata:
  name: $(quoted "$name")
spec:
  completionMode: Indexed
  completions: $PREPOSE_SHARDS
  parallelism: ${PREPOSE_PARALLEL:-$PREPOSE_SHARDS}
  backoffLimitPerIndex: ${PREPOSE_TRIES:-20}
  # Not while the old pod still ends: two copies of a shard do no harm, but no good either.
  podReplacementPolicy: Failed
  podFailurePolicy:
    rules:
      # In this order: a pod that is sent away also ends with an error of prepose's, and is no failure.
      - action: Ignore
        onPodConditions: [{type: DisruptionTarget, status: "True"}]
      # An error that prepose names will not go away by itself.
      - action: FailIndex
        onExitCodes: {containerName: worker, operator: In, values: [2]}
  template:
    metadata:
      labels: {app.kubernetes.io/name: prepose}
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 180
      containers:
        - name: worker
$(pod 'eval "set -- $PREPOSE_ARGS"; exec prepose run "$@" --shards "$PREPOSE_SHARDS" --out "$PREPOSE_RUN"' "${PREPOSE_GPUS:-}")
YAML
        ;;
    merge)
        cat <<YAML
apiVersion: batch/v1
kind: Job
metadata:
  name: $(quoted "$name-merge")
spec:
  completions: 1
  parallelism: 1
  backoffLimit: 3
  podFailurePolicy:
    rules:
      - action: Ignore
        onPodConditions: [{type: DisruptionTarget, status: "True"}]
      - action: FailJob
        onExitCodes: {containerName: merge, operator: In, values: [2]}
  template:
    metadata:
      labels: {app.kubernetes.io/name: prepose}
    spec:
      restartPolicy: Never
      containers:
        - name: merge
$(pod 'exec prepose merge "$PREPOSE_RUN" --out "$PREPOSE_OUT"' "")
YAML
        ;;
    *) echo "say nothing, or merge" >&2; exit 2 ;;
esac
