/* A stand-in for libcudnn: the functions that the harvest calls, checking what they are given.
 *
 * With -DREAL_HEADERS it is compiled against cuDNN's own headers, so that a signature or a record that
 * differs from the real one does not compile; without, it declares what it needs (same layout).
 * Convolutions are not computed. Each run checks handle, descriptors, algorithm, workspace and scalars,
 * reads the first and last element of its operands and writes 1 and 2 into those of its result, and
 * anything inconsistent is CUDNN_STATUS_BAD_PARAM.
 *
 * Behaviour that tests rely on: DIRECT and WINOGRAD (forward) are not supported; FFT needs 1 << 40 bytes;
 * backward-data FFT fails to execute; backward-filter FFT_TILING kills the process when the environment
 * has FAKE_CUDNN_CRASH.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef REAL_HEADERS
#include <cudnn.h>
#else
typedef int cudnnStatus_t;
typedef int cudnnDataType_t;
typedef int cudnnTensorFormat_t;
typedef int cudnnConvolutionMode_t;
typedef int cudnnMathType_t;
typedef int cudnnDeterminism_t;
typedef int cudnnConvolutionFwdAlgo_t;
typedef int cudnnConvolutionBwdDataAlgo_t;
typedef int cudnnConvolutionBwdFilterAlgo_t;
typedef struct cudnnContext *cudnnHandle_t;
typedef struct cudnnTensorStruct *cudnnTensorDescriptor_t;
typedef struct cudnnFilterStruct *cudnnFilterDescriptor_t;
typedef struct cudnnConvolutionStruct *cudnnConvolutionDescriptor_t;
typedef struct CUstream_st *cudaStream_t;
typedef struct { int algo; cudnnStatus_t status; float time; size_t memory; cudnnDeterminism_t determinism;
                 cudnnMathType_t mathType; int reserved[3]; } perf_t;
typedef perf_t cudnnConvolutionFwdAlgoPerf_t;
typedef perf_t cudnnConvolutionBwdDataAlgoPerf_t;
typedef perf_t cudnnConvolutionBwdFilterAlgoPerf_t;
#define CUDNN_STATUS_SUCCESS 0
#define CUDNN_STATUS_BAD_PARAM 2000
#define CUDNN_STATUS_NOT_SUPPORTED 3000
#define CUDNN_STATUS_EXECUTION_FAILED 5000
#define CUDNNWINAPI
#endif

#define BAD CUDNN_STATUS_BAD_PARAM
#define OK CUDNN_STATUS_SUCCESS

struct cudnnContext { int magic; void *stream; };
struct cudnnTensorStruct { int magic, type, n; int dim[8], stride[8]; };
struct cudnnFilterStruct { int magic, type, n; int dim[8]; };
struct cudnnConvolutionStruct { int magic, n, pad[8], stride[8], dilation[8], compute, groups, math; };

enum { CONTEXT = 0x11, TENSOR = 0x22, FILTER = 0x33, CONVOLUTION = 0x44 };

size_t cudnnGetVersion(void) { return 90999; }

const char *cudnnGetErrorString(cudnnStatus_t status) {
    switch ((int)status) {
        case 0: return "CUDNN_STATUS_SUCCESS";
        case 2000: return "CUDNN_STATUS_BAD_PARAM";
        case 3000: return "CUDNN_STATUS_NOT_SUPPORTED";
        case 5000: return "CUDNN_STATUS_EXECUTION_FAILED";
        default: return "CUDNN_STATUS_UNKNOWN";
    }
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
    *handle = calloc(1, sizeof **handle);
    (*handle)->magic = CONTEXT;
    return OK;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
    if (handle->magic != CONTEXT) return BAD;
    free(handle);
    return OK;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
    if (handle->magic != CONTEXT) return BAD;
    handle->stream = stream;
    return OK;
}

static int alive;
int fake_cudnn_descriptors_alive(void) { return alive; }

#define LIFE(Kind, kind, tag)                                                             \
    cudnnStatus_t cudnnCreate##Kind##Descriptor(cudnn##Kind##Descriptor_t *d) {           \
        *d = calloc(1, sizeof **d); (*d)->magic = tag; alive++; return OK;                \
    }                                                                                     \
    cudnnStatus_t cudnnDestroy##Kind##Descriptor(cudnn##Kind##Descriptor_t d) {           \
        if (!d || d->magic != tag) return BAD;                                            \
        d->magic = 0; free(d); alive--; return OK;                                        \
    }
LIFE(Tensor, tensor, TENSOR)
LIFE(Filter, filter, FILTER)
LIFE(Convolution, convolution, CONVOLUTION)

cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t d, cudnnDataType_t type, int n,
                                         const int dim[], const int stride[]) {
    if (d->magic != TENSOR || n < 4 || n > 5) return BAD;
    int expected = 1;
    for (int i = n - 1; i >= 0; expected *= dim[i], i--)
        if (stride[i] != expected || dim[i] < 1) return BAD;
    d->type = type; d->n = n;
    memcpy(d->dim, dim, sizeof(int) * n); memcpy(d->stride, stride, sizeof(int) * n);
    return OK;
}
cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t d, cudnnDataType_t type, cudnnTensorFormat_t format,
                                         int n, const int dim[]) {
    if (d->magic != FILTER || format != 0 || n < 4 || n > 5) return BAD;
    d->type = type; d->n = n;
    memcpy(d->dim, dim, sizeof(int) * n);
    return OK;
}
cudnnStatus_t cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t d, int n, const int pad[],
                                              const int stride[], const int dilation[],
                                              cudnnConvolutionMode_t mode, cudnnDataType_t compute) {
    if (d->magic != CONVOLUTION || mode != 1 || n < 2 || n > 3) return BAD;
    for (int i = 0; i < n; i++)
        if (pad[i] < 0 || stride[i] < 1 || dilation[i] < 1) return BAD;
    d->n = n; d->compute = compute; d->groups = 1;
    memcpy(d->pad, pad, sizeof(int) * n); memcpy(d->stride, stride, sizeof(int) * n);
    memcpy(d->dilation, dilation, sizeof(int) * n);
    return OK;
}
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t d, int groups) {
    if (d->magic != CONVOLUTION || groups < 1) return BAD;
    d->groups = groups;
    return OK;
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t d, cudnnMathType_t math) {
    if (d->magic != CONVOLUTION || (int)math < 0 || (int)math > 3) return BAD;
    d->math = math;
    return OK;
}
cudnnStatus_t cudnnGetConvolutionNdForwardOutputDim(const cudnnConvolutionDescriptor_t c,
                                                    const cudnnTensorDescriptor_t x, const cudnnFilterDescriptor_t w,
                                                    int n, int out[]) {
    if (c->magic != CONVOLUTION || x->magic != TENSOR || w->magic != FILTER) return BAD;
    if (n != x->n || n != w->n || n != c->n + 2 || x->dim[1] != w->dim[1] * c->groups || x->type != w->type) return BAD;
    out[0] = x->dim[0]; out[1] = w->dim[0];
    for (int i = 0; i < c->n; i++)
        out[i + 2] = (x->dim[i + 2] + 2 * c->pad[i] - c->dilation[i] * (w->dim[i + 2] - 1) - 1) / c->stride[i] + 1;
    return OK;
}

static int consistent(cudnnHandle_t h, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
                      cudnnConvolutionDescriptor_t c, cudnnTensorDescriptor_t y) {
    int out[8];
    if (h->magic != CONTEXT || y->magic != TENSOR) return 0;
    if (cudnnGetConvolutionNdForwardOutputDim(c, x, w, x->n, out) != OK) return 0;
    return x->n == y->n && !memcmp(out, y->dim, sizeof(int) * x->n);
}

/* direction: 0 forward, 1 backward-data, 2 backward-filter */
static cudnnStatus_t workspace(int direction, int algo, cudnnTensorDescriptor_t x, size_t *size) {
    static const int count[] = {8, 6, 7};
    if (algo < 0 || algo >= count[direction]) return BAD;
    *size = 0;
    if (direction == 0 && (algo == 3 || algo == 6)) return CUDNN_STATUS_NOT_SUPPORTED;
    *size = (size_t)x->dim[0] * 1000 * (direction + 1) + algo;
    if (direction == 0 && algo == 4) *size = (size_t)1 << 40;
    return OK;
}

static size_t elements(int n, const int *dim) {
    size_t total = 1;
    for (int i = 0; i < n; i++) total *= dim[i];
    return total;
}
static size_t width(int type) { return type == 1 ? 8 : type == 0 ? 4 : 2; }
static double scalar(const void *value, int type) { return type == 1 ? *(const double *)value : *(const float *)value; }

static volatile unsigned char sink;
static void touch_read(const void *data, int type, size_t count) {
    const unsigned char *bytes = data;
    sink ^= bytes[0] ^ bytes[count * width(type) - 1];
}
static void mark(void *data, int type, size_t count) {
    if (type == 0) { ((float *)data)[0] = 1; ((float *)data)[count - 1] = 2; }
    else if (type == 1) { ((double *)data)[0] = 1; ((double *)data)[count - 1] = 2; }
    else { ((uint16_t *)data)[0] = 1; ((uint16_t *)data)[count - 1] = 2; }
}

static cudnnStatus_t run(int direction, cudnnHandle_t h, const void *alpha, cudnnTensorDescriptor_t x, const void *xp,
                         cudnnFilterDescriptor_t w, const void *wp, cudnnTensorDescriptor_t y, const void *yp,
                         cudnnConvolutionDescriptor_t c, int algo, void *scratch, size_t room, const void *beta) {
    size_t needed;
    if (!consistent(h, x, w, c, y) || scalar(alpha, c->compute) != 1 || scalar(beta, c->compute) != 0) return BAD;
    cudnnStatus_t status = workspace(direction, algo, x, &needed);
    if (status != OK) return status;
    if (room < needed || (needed && !scratch)) return BAD;
    if (direction == 1 && algo == 2) return CUDNN_STATUS_EXECUTION_FAILED;
    if (direction == 2 && algo == 6 && getenv("FAKE_CUDNN_CRASH")) abort();
    if (needed) memset(scratch, 1, needed);
    size_t nx = elements(x->n, x->dim), nw = elements(w->n, w->dim), ny = elements(y->n, y->dim);
    if (direction != 1) touch_read(xp, x->type, nx); else mark((void *)xp, x->type, nx);
    if (direction != 2) touch_read(wp, w->type, nw); else mark((void *)wp, w->type, nw);
    if (direction != 0) touch_read(yp, y->type, ny); else mark((void *)yp, y->type, ny);
    return OK;
}

#define REPORT(direction, total)                                                                     \
    int made = 0;                                                                                    \
    if (requested < total || !consistent(h, x, w, c, y)) return BAD;                                 \
    for (int algo = total - 1; algo >= 0; algo--, made++) {                                          \
        size_t size;                                                                                 \
        cudnnStatus_t status = workspace(direction, algo, x, &size);                                 \
        results[made].algo = algo; results[made].status = status;                                    \
        results[made].time = status == OK ? 0.25f * (algo + 1) : -1.0f;                              \
        results[made].memory = size; results[made].determinism = algo % 2;                           \
        results[made].mathType = c->math;                                                            \
    }                                                                                                \
    *returned = made;                                                                                \
    return OK;

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t h, const cudnnTensorDescriptor_t x,
    const cudnnFilterDescriptor_t w, const cudnnConvolutionDescriptor_t c, const cudnnTensorDescriptor_t y,
    cudnnConvolutionFwdAlgo_t algo, size_t *size) {
    return consistent(h, x, w, c, y) ? workspace(0, algo, x, size) : BAD;
}
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(cudnnHandle_t h, const cudnnFilterDescriptor_t w,
    const cudnnTensorDescriptor_t y, const cudnnConvolutionDescriptor_t c, const cudnnTensorDescriptor_t x,
    cudnnConvolutionBwdDataAlgo_t algo, size_t *size) {
    return consistent(h, x, w, c, y) ? workspace(1, algo, x, size) : BAD;
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(cudnnHandle_t h, const cudnnTensorDescriptor_t x,
    const cudnnTensorDescriptor_t y, const cudnnConvolutionDescriptor_t c, const cudnnFilterDescriptor_t w,
    cudnnConvolutionBwdFilterAlgo_t algo, size_t *size) {
    return consistent(h, x, w, c, y) ? workspace(2, algo, x, size) : BAD;
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t h, const cudnnTensorDescriptor_t x,
    const cudnnFilterDescriptor_t w, const cudnnConvolutionDescriptor_t c, const cudnnTensorDescriptor_t y,
    const int requested, int *returned, cudnnConvolutionFwdAlgoPerf_t *results) { REPORT(0, 8) }
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t h, const cudnnFilterDescriptor_t w,
    const cudnnTensorDescriptor_t y, const cudnnConvolutionDescriptor_t c, const cudnnTensorDescriptor_t x,
    const int requested, int *returned, cudnnConvolutionBwdDataAlgoPerf_t *results) { REPORT(1, 6) }
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnnHandle_t h, const cudnnTensorDescriptor_t x,
    const cudnnTensorDescriptor_t y, const cudnnConvolutionDescriptor_t c, const cudnnFilterDescriptor_t w,
    const int requested, int *returned, cudnnConvolutionBwdFilterAlgoPerf_t *results) { REPORT(2, 7) }

cudnnStatus_t cudnnFindConvolutionForwardAlgorithmEx(cudnnHandle_t h, const cudnnTensorDescriptor_t x, const void *xp,
    const cudnnFilterDescriptor_t w, const void *wp, const cudnnConvolutionDescriptor_t c,
    const cudnnTensorDescriptor_t y, void *yp, const int requested, int *returned,
    cudnnConvolutionFwdAlgoPerf_t *results, void *scratch, size_t room) {
    touch_read(xp, x->type, elements(x->n, x->dim)); touch_read(wp, w->type, elements(w->n, w->dim));
    mark(yp, y->type, elements(y->n, y->dim));
    if (room) memset(scratch, 1, 1);
    REPORT(0, 8)
}
cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithmEx(cudnnHandle_t h, const cudnnFilterDescriptor_t w,
    const void *wp, const cudnnTensorDescriptor_t y, const void *yp, const cudnnConvolutionDescriptor_t c,
    const cudnnTensorDescriptor_t x, void *xp, const int requested, int *returned,
    cudnnConvolutionBwdDataAlgoPerf_t *results, void *scratch, size_t room) {
    touch_read(yp, y->type, elements(y->n, y->dim)); touch_read(wp, w->type, elements(w->n, w->dim));
    mark(xp, x->type, elements(x->n, x->dim));
    if (room) memset(scratch, 1, 1);
    REPORT(1, 6)
}
cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithmEx(cudnnHandle_t h, const cudnnTensorDescriptor_t x,
    const void *xp, const cudnnTensorDescriptor_t y, const void *yp, const cudnnConvolutionDescriptor_t c,
    const cudnnFilterDescriptor_t w, void *wp, const int requested, int *returned,
    cudnnConvolutionBwdFilterAlgoPerf_t *results, void *scratch, size_t room) {
    touch_read(xp, x->type, elements(x->n, x->dim)); touch_read(yp, y->type, elements(y->n, y->dim));
    mark(wp, w->type, elements(w->n, w->dim));
    if (room) memset(scratch, 1, 1);
    REPORT(2, 7)
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t h, const void *alpha, const cudnnTensorDescriptor_t x,
    const void *xp, const cudnnFilterDescriptor_t w, const void *wp, const cudnnConvolutionDescriptor_t c,
    cudnnConvolutionFwdAlgo_t algo, void *scratch, size_t room, const void *beta, const cudnnTensorDescriptor_t y,
    void *yp) { return run(0, h, alpha, x, xp, w, wp, y, yp, c, algo, scratch, room, beta); }
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t h, const void *alpha, const cudnnFilterDescriptor_t w,
    const void *wp, const cudnnTensorDescriptor_t y, const void *yp, const cudnnConvolutionDescriptor_t c,
    cudnnConvolutionBwdDataAlgo_t algo, void *scratch, size_t room, const void *beta,
    const cudnnTensorDescriptor_t x, void *xp) {
    return run(1, h, alpha, x, xp, w, wp, y, yp, c, algo, scratch, room, beta);
}
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t h, const void *alpha, const cudnnTensorDescriptor_t x,
    const void *xp, const cudnnTensorDescriptor_t y, const void *yp, const cudnnConvolutionDescriptor_t c,
    cudnnConvolutionBwdFilterAlgo_t algo, void *scratch, size_t room, const void *beta,
    const cudnnFilterDescriptor_t w, void *wp) {
    return run(2, h, alpha, x, xp, w, wp, y, yp, c, algo, scratch, room, beta);
}
